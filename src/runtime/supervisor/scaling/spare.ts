import type { Decision, Snapshot } from './algorithm.js'
import { census, grow, hold, shrink } from './answers.js'

interface State {
  readonly overloaded: number
  readonly idle: number
}

/**
 * Spawns when all workers were busy for longer than `overload` ticks, and keeps one free worker (uWSGI 2.0.21,
 * core/master_utils.c, `uwsgi_cheaper_algo_spare`; HEAD spawns one tick earlier).
 */
export function spare(snapshot: Snapshot, state: State = { overloaded: 0, idle: 0 }): Decision<State> {
  const { present, busy, idle: idleWorkers } = census(snapshot)
  const { workers, canSpawn, options } = snapshot
  const isOverloaded = present > 0 && busy === present
  const overloaded = isOverloaded ? state.overloaded + 1 : Math.max(0, state.overloaded - 1)
  const idle = isOverloaded ? 0 : state.idle
  const held = { target: hold(snapshot), state: { overloaded, idle } }

  if (workers.length === 0) return { ...held, reason: 'no worker lives' }
  if (canSpawn && overloaded > options.overload) {
    const reason = `all ${busy} busy for ${overloaded} ticks`
    return { target: grow(snapshot, options.step ?? 1), state: { overloaded: 0, idle }, reason }
  }
  if (overloaded > 0) return { ...held, reason: `${busy} of ${present} busy, overload ${overloaded}` }
  if (present - busy === 1) return { ...held, reason: 'one is free' }

  const next = { overloaded, idle: idle + 1 }
  const isTime = next.idle % options.overload === 0
  if (isTime && present > options.minimum && idleWorkers > 0)
    return { target: shrink(snapshot), state: next, reason: `${idleWorkers} idle for ${next.idle} ticks` }
  return { ...held, state: next, reason: `${idleWorkers} idle` }
}
