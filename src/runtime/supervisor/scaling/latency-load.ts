import type { Snapshot } from './algorithm.js'

/** At most this share of the tasks may wait longer than the goal: p95. */
export const LATE = 0.05
/** Of tasks that run for many times the goal, more may find all workers busy: one more is ready before they have waited long. */
const LATE_OF_LONG = 3.5 * LATE
const LONG_RUN = 8

interface Window {
  /** After which what was seen counts for about a third. */
  readonly seconds: number
  /** How far beyond chance it has to be before it counts. */
  readonly deviations: number
}

/**
 * Arrivals are counted over each of these. The longest knows best while nothing changes; each shorter one corrects it, but
 * only by what is beyond chance.
 */
const WINDOWS: readonly Window[] = [
  { seconds: 120, deviations: 0 },
  { seconds: 20, deviations: 3 },
  { seconds: 4, deviations: 2.5 },
  { seconds: 0.5, deviations: 4 },
]
/** So many times as far beyond chance, the load is another one: what was counted before says nothing about it. */
const ANOTHER = 2
/** The longest window lasts for so many runs at least. */
const LONGEST_RUNS = 40
/** The window that says what the last seconds were like. */
const RECENT = 2
/** The arrival rate may be higher than it seems by so many deviations. */
const DOUBT = 1.75
const ENDED_MEMORY_S = 4
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
  /** In each of `WINDOWS`. */
  readonly arrivals: readonly Fading[]
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
  return { atMicros, arrivals: WINDOWS.map(() => NONE), ended: NONE, ...counts }
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
    arrivals: ofThisLoad(
      WINDOWS.map((window, i) =>
        fade(load.arrivals[i] ?? NONE, seconds, i === 0 ? longestSeconds(load) : window.seconds, arrived),
      ),
    ),
    ended: fade(load.ended, seconds, ENDED_MEMORY_S, finished),
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

/** How many tasks arrive per second. */
export function arrivalRate({ arrivals }: Load): number {
  return estimate(arrivals).rate
}

function estimate(arrivals: Load['arrivals']): { readonly rate: number; readonly isAnother: boolean } {
  let rate = rateOf(arrivals[0] ?? NONE)
  let isAnother = false
  for (const [i, { deviations }] of WINDOWS.entries()) {
    const counted = arrivals[i] ?? NONE
    if (i === 0 || counted.seconds === 0) continue
    const own = rateOf(counted)
    // the deviation of a faded count, of which one task more or less says nothing
    const chance = deviations * Math.sqrt((own + 1 / counted.seconds) / (2 * counted.seconds))
    isAnother ||= Math.abs(own - rate) > ANOTHER * chance
    rate = Math.min(own + chance, Math.max(own - chance, rate))
  }
  return { rate, isAnother }
}

/** When the load has become another one, longer windows begin again, with what is beyond chance in the shortest one. */
function ofThisLoad(arrivals: Load['arrivals']): Load['arrivals'] {
  const { rate, isAnother } = estimate(arrivals)
  const shortest = arrivals.at(-1)
  if (!isAnother || shortest === undefined) return arrivals
  const { seconds } = shortest
  return [...arrivals.slice(0, -1).map(() => ({ sum: rate * seconds, seconds })), shortest]
}

/** How many it may be in truth, as far as is known. */
export function highestRate(load: Load): number {
  const rate = arrivalRate(load)
  const seen = 2 * rate * longestSeconds(load)
  const doubt = seen > 4 ? DOUBT / Math.sqrt(seen) : 1
  return Math.max(rate * (1 + doubt), rateOf(load.arrivals[RECENT] ?? NONE))
}

function longestSeconds(load: Load): number {
  return Math.max(WINDOWS[0]?.seconds ?? 0, LONGEST_RUNS * (meanRun(load) ?? 0))
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

/** The share of tasks that have waited too long. */
export function lateShare({ late, started }: Load): number {
  return started > 0.01 ? late / started : 0
}

/** What share of the tasks may find no worker in time. @param runSeconds how long they run */
export function shareAllowed(runSeconds: number, goalSeconds: number): number {
  return runSeconds > LONG_RUN * goalSeconds ? LATE_OF_LONG : LATE
}

/** After so many seconds or runs without a late task, a burst is over, or is mastered: now it can be judged. */
const CALM_S = 10
const CALM_RUNS = 10
/** A burst is not the only one if the last one was so many seconds ago at most. After as long, one worker less will do. */
const MEMORY_S = 300
/** More late tasks than are allowed by so many deviations are no chance. */
const DEVIATIONS = 2
const MOST_AT_ONCE = 3

/** How many workers are kept beyond what is needed, for bursts that come again: workers that have to start first are late. */
export interface Reserve {
  readonly workers: number
  readonly changedMicros: number
  /** When the last burst was judged. */
  readonly judgedMicros: number | undefined
  /** When tasks of a burst that is not judged yet were last late. */
  readonly lateMicros: number | undefined
}

export const NO_RESERVE: Reserve = {
  workers: 0,
  changedMicros: 0,
  judgedMicros: undefined,
  lateMicros: undefined,
}

/** Learns from each burst but the first one how many it takes, and forgets it slowly. */
export function learn(reserve: Reserve, snapshot: Snapshot, before: Load, load: Load): Reserve {
  const { nowMicros, options } = snapshot
  const { workers, changedMicros, judgedMicros, lateMicros } = reserve
  const isPast = (micros: number, seconds: number) => nowMicros - micros >= seconds * 1e6
  const runSeconds = meanRun(load) ?? 0
  const share = shareAllowed(runSeconds, options.waitMicros / 1e6)

  if (workers > 0 && load.started < 1) return NO_RESERVE // nothing has run for long
  if (load.late > before.late) return { ...reserve, lateMicros: nowMicros }
  if (lateMicros !== undefined && isPast(lateMicros, Math.max(CALM_S, CALM_RUNS * runSeconds))) {
    const judged = { ...reserve, judgedMicros: nowMicros, lateMicros: undefined }
    const isFirst = judgedMicros === undefined || isPast(judgedMicros, MEMORY_S)
    if (isFirst || !isTooLate(load, share)) return judged
    const more = Math.max(1, Math.min(MOST_AT_ONCE, Math.round(lateShare(load) / share)))
    return { ...judged, workers: Math.min(options.maximum, workers + more), changedMicros: nowMicros }
  }
  const isGood = load.late < 1 || lateShare(load) < share / 2
  if (workers > 0 && isGood && isPast(changedMicros, MEMORY_S))
    return { ...reserve, workers: workers - 1, changedMicros: nowMicros }
  return reserve
}

function isTooLate({ late, started }: Load, share: number): boolean {
  const allowed = share * started
  return late > allowed + DEVIATIONS * Math.sqrt(allowed)
}
