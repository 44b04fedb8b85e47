import type { Snapshot } from './algorithm.js'
import { type Load, lateShare, meanRun, shareAllowed } from './latency-load.js'

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
