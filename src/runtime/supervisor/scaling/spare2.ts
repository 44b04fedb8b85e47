import type { Decision, Snapshot } from './algorithm.js'
import { census, grow, hold, shrink } from './answers.js'

/** For how many ticks more were idle than `minimum`. */
type State = number

/**
 * Keeps `minimum` workers idle: spawns what is missing, and stops one after `idle` ticks with more (uWSGI HEAD,
 * core/master_utils.c, `uwsgi_cheaper_algo_spare2`).
 */
export function spare2(snapshot: Snapshot, state: State = 0): Decision<State> {
  const { workers, options, canSpawn } = snapshot
  const { idle, coming } = census(snapshot)
  const missing = options.minimum - (idle + coming)
  const held = { target: hold(snapshot), state: 0 }
  const reason = `${idle} idle of ${options.minimum} wanted`

  if (workers.length === 0) return { ...held, reason: 'no worker lives' }
  if (missing > 0) return { ...held, ...(canSpawn && { target: grow(snapshot, missing) }), reason }
  if (idle <= options.minimum) return { ...held, reason }
  if (state + 1 < options.idle) return { ...held, state: state + 1, reason: `${reason}, tick ${state + 1}` }
  return { target: shrink(snapshot), state: 0, reason: `${idle} idle for ${options.idle} ticks` }
}
