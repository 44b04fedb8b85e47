import type { Decision, Snapshot } from './algorithm.js'
import { census } from './answers.js'

/** How long idle workers are kept: the next task may arrive soon. */
const IDLE_MICROS = 1_000_000

interface State {
  /** Undefined: there is something to do. */
  readonly idleSince?: number
}

/** As many workers as there are tasks and signals, and none when there have been none for a second: `spooler-cheap`. */
export function cheap(snapshot: Snapshot, state: State = {}): Decision<State> {
  const { backlog, running, signals, options, canSpawn, nowMicros } = snapshot
  const { present } = census(snapshot)
  const load = backlog + running + signals
  if (load > 0) {
    const target = canSpawn ? Math.max(present, Math.min(options.maximum, load)) : present
    return { target, state: {}, reason: `${load} waiting or running` }
  }
  const idleSince = state.idleSince ?? nowMicros
  const left = idleSince + IDLE_MICROS - nowMicros
  if (left <= 0 || present === 0) return { target: 0, state: { idleSince }, reason: 'nothing to do' }
  return { target: present, state: { idleSince }, reason: 'nothing to do as yet', askAgainMicros: left }
}
