import type { Arrivals } from './simulate.js'

/** How a load goes up and down. */
interface Pattern {
  readonly summary: string
  readonly seconds: number
  /** Mean run time in seconds; the times are exponential. */
  readonly run: number
  /** How many workers would be busy all the time, as a share of the maximum. */
  readonly load: (second: number) => number
}

export const PATTERNS: Readonly<Record<string, Pattern>> = {
  idle: { summary: 'a task every 20 s', seconds: 1200, run: 0.1, load: () => 0.0003 },
  ramp: {
    summary: 'up to three quarters of the maximum in ten minutes, and down again',
    seconds: 1200,
    run: 0.1,
    load: second => 0.75 * (1 - Math.abs(1 - second / 600)),
  },
  burst: {
    summary: 'every two minutes, 20 s of five eighths of the maximum',
    seconds: 1200,
    run: 0.1,
    load: second => (second % 120 < 20 ? 0.625 : 0.0125),
  },
  sawtooth: {
    summary: 'up to five eighths of the maximum in 150 s, again and again',
    seconds: 1200,
    run: 0.2,
    load: second => 0.625 * ((second % 150) / 150),
  },
  long: {
    summary: 'tasks of 8 s, a quarter of the maximum',
    seconds: 2400,
    run: 8,
    load: () => 0.25,
  },
}

/** Tasks that arrive at random (a Poisson process), and run for random times. The same seed gives the same tasks. */
export function arrivalsOf({ seconds, run, load }: Pattern, maximum: number, seed: number): Arrivals {
  const random = randomOf(seed)
  const gap = (mean: number) => -Math.log(1 - random()) * mean
  const arrivedAt: number[] = []
  const runMicros: number[] = []
  const most = maximum / run // candidates per second: those beyond the load are thrown away
  for (let second = gap(1 / most); second < seconds; second += gap(1 / most)) {
    if (random() >= load(second)) continue
    arrivedAt.push(Math.round(second * 1e6))
    runMicros.push(Math.max(1, Math.round(gap(run) * 1e6)))
  }
  return { arrivedAt: Float64Array.from(arrivedAt), runMicros: Float64Array.from(runMicros) }
}

/** Numbers from 0 to 1 (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
