/** SPOOLD_TEST_SEED repeats the choices of a run, which prints it (test/run.mjs). */
export const SEED = Number(process.env.SPOOLD_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))

/** Random choices, reproducible from a seed; their timing is not. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** A number from 0 to 1, by mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least)
  }

  pick<T>(choices: readonly T[]): T | undefined {
    return choices[Math.floor(this.next() * choices.length)]
  }

  shuffled<T>(all: readonly T[]): T[] {
    const keyed = all.map(each => ({ each, key: this.next() }))
    return keyed.sort((a, b) => a.key - b.key).map(({ each }) => each)
  }

  /** Picks a name with a probability proportional to its weight. */
  weighed<Name extends string>(weights: Readonly<Partial<Record<Name, number>>>): Name {
    const entries = Object.entries(weights) as [Name, number][]
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [name, weight] of entries) {
      left -= weight
      if (left < 0) return name
    }
    throw new Error('no weight')
  }
}
