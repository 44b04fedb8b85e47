/** Two buckets per power of two, from 1 µs to 71 minutes: longer durations are in the last one. */
const BUCKETS = 64
const LONGEST = 2 ** 32 - 1

/** How often each duration was seen, in microseconds, to within a factor of 1.5. */
export class Histogram {
  readonly #counts = new Uint32Array(BUCKETS)
  #count = 0
  #sum = 0

  /** How many durations were added. */
  get count(): number {
    return this.#count
  }

  /** The sum of all durations that were added, in microseconds. */
  get sum(): number {
    return this.#sum
  }

  /** The buckets that are not empty: the upper bound of each in microseconds, and how many durations are in it. */
  get buckets(): Array<readonly [belowMicros: number, count: number]> {
    return [...this.#counts].flatMap((count, bucket) =>
      count === 0 ? [] : [[boundOf(bucket), count] as const],
    )
  }

  add(microseconds: number): void {
    const bucket = bucketOf(microseconds)
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#count++
    this.#sum += microseconds
  }

  /** Packs the histogram into few numbers, for a message: the sum, then bucket and count in turn. */
  pack(): number[] {
    const packed = [Math.round(this.#sum)]
    const counts = this.#counts
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      // an iterator would cost ten times as much, and messages are many
      const count = counts[bucket] ?? 0
      if (count > 0) packed.push(bucket, count)
    }
    return packed
  }

  /** Forgets all that was added. */
  clear(): void {
    this.#counts.fill(0)
    this.#count = 0
    this.#sum = 0
  }

  /** Adds what another histogram has packed. */
  merge(packed: readonly number[]): void {
    this.#sum += packed[0] ?? 0
    for (let i = 1; i < packed.length; i += 2) {
      const bucket = Math.min(packed[i] ?? 0, BUCKETS - 1)
      const count = packed[i + 1] ?? 0
      this.#counts[bucket] = (this.#counts[bucket] ?? 0) + count
      this.#count += count
    }
  }

  /**
   * Returns the upper bound, in microseconds, of the first bucket up to which this share of all durations lies; 0 if none
   * was added.
   */
  quantile(share: number): number {
    let left = Math.ceil(this.#count * share)
    if (this.#count === 0) return 0
    for (const [bucket, count] of this.#counts.entries()) {
      left -= count
      if (left <= 0) return boundOf(bucket)
    }
    return boundOf(BUCKETS - 1)
  }
}

/** Returns the bucket of a duration, by the highest bit that is set and the one below it. */
function bucketOf(microseconds: number): number {
  const whole = Math.min(LONGEST, Math.max(1, Math.round(microseconds)))
  const power = 31 - Math.clz32(whole)
  const isUpperHalf = power > 0 && (whole >>> (power - 1)) % 2 === 1
  return 2 * power + (isUpperHalf ? 1 : 0)
}

/** Returns the upper bound of a bucket: every duration in it is less. */
function boundOf(bucket: number): number {
  const power = 2 ** Math.floor(bucket / 2)
  return bucket % 2 === 0 ? power * 1.5 : power * 2
}
