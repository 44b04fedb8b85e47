import type { Snapshot } from './algorithm.js'

/** Seconds after which what was seen counts for about a third. */
const RATE_MEMORY_S = 30
/** And for long tasks, so many times as long as they run. */
const RATE_MEMORY_RUNS = 20
const SURGE_MEMORY_S = 4
const RUNS_MEMORY_S = 180

/** A sum in which what is old counts less and less. */
interface Fading {
  readonly sum: number
  /** Over how many seconds, faded alike. */
  readonly seconds: number
}

/** What is known of the load. It fades, so that it takes the same room however long it is kept. */
export interface Load {
  readonly atMicros: number
  readonly arrivals: Fading
  readonly surge: Fading
  readonly ended: Fading
  readonly runs: number
  readonly runSeconds: number
  readonly runSecondsSquared: number
  /** Tasks that had waited for longer than the goal, of all that ended. */
  readonly late: number
  readonly started: number
}

const NONE: Fading = { sum: 0, seconds: 0 }

export function emptyLoad(atMicros: number): Load {
  const counts = { runs: 0, runSeconds: 0, runSecondsSquared: 0, late: 0, started: 0 }
  return { atMicros, arrivals: NONE, surge: NONE, ended: NONE, ...counts }
}

export function noteLoad(load: Load, { nowMicros, arrived, finished, runs, waits, options }: Snapshot): Load {
  const seconds = Math.max(0, (nowMicros - load.atMicros) / 1e6)
  const kept = Math.exp(-seconds / RUNS_MEMORY_S)
  let squared = 0
  // most decisions see no run: a histogram of none is not gone through
  if (runs.count > 0) for (const [below, count] of runs.buckets) squared += count * (below / 1e6) ** 2
  let late = 0
  if (waits.count > 0)
    for (const [below, count] of waits.buckets) if (below > options.waitMicros * 1.5) late += count
  return {
    atMicros: nowMicros,
    arrivals: fade(load.arrivals, seconds, rateMemory(load), arrived),
    surge: fade(load.surge, seconds, SURGE_MEMORY_S, arrived),
    ended: fade(load.ended, seconds, SURGE_MEMORY_S, finished),
    runs: load.runs * kept + runs.count,
    runSeconds: load.runSeconds * kept + runs.sum / 1e6,
    runSecondsSquared: load.runSecondsSquared * kept + squared,
    late: load.late * kept + late,
    started: load.started * kept + waits.count,
  }
}

function fade({ sum, seconds }: Fading, passed: number, memory: number, more: number): Fading {
  const kept = Math.exp(-passed / memory)
  return { sum: sum * kept + more, seconds: seconds * kept + memory * (1 - kept) }
}

/** Per second. */
export function rateOf({ sum, seconds }: Fading): number {
  return seconds > 0 ? sum / seconds : 0
}

/** How many tasks arrive per second: that of the last minute, unless the last seconds differ from it beyond chance. */
export function arrivalRate({ arrivals, surge }: Load): number {
  const now = rateOf(surge)
  const least = now - 3 * Math.sqrt(now / (2 * SURGE_MEMORY_S)) // three deviations of a faded count
  const most = now + 3 * Math.sqrt((now + 1 / SURGE_MEMORY_S) / (2 * SURGE_MEMORY_S))
  return Math.min(most, Math.max(least, rateOf(arrivals)))
}

/** How far the arrival rate may be wrong by chance, as a share of it. */
export function rateError(load: Load): number {
  const seen = 2 * arrivalRate(load) * rateMemory(load)
  return seen > 4 ? 1.2 / Math.sqrt(seen) : 1
}

function rateMemory(load: Load): number {
  return Math.max(RATE_MEMORY_S, RATE_MEMORY_RUNS * (meanRun(load) ?? 0))
}

/** Seconds; undefined: no task has ended of late. */
export function meanRun({ runs, runSeconds }: Load): number | undefined {
  return runs > 0.01 ? runSeconds / runs : undefined
}

/** The squared deviation of run times as a share of the squared mean: 0 if all are alike, 1 if exponential. */
export function variability({ runs, runSeconds, runSecondsSquared }: Load): number {
  if (runs <= 0.01 || runSeconds === 0) return 1
  return Math.max(0, runSecondsSquared / runs / (runSeconds / runs) ** 2 - 1)
}

/** The share of tasks that have waited too long. @param others tasks that count as in time */
export function lateShare({ late, started }: Load, others = 0): number {
  return started > 0.01 ? late / (started + others) : 0
}
