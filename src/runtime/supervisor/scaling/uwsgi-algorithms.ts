import { census, type Decision, grow, hold, type Snapshot, shrink } from './algorithm.js'

/** `overloaded`: for how many ticks all workers were busy. `idle`: for how many ticks more than one was free. */
interface Ticks {
  readonly overloaded: number
  readonly idle: number
}

/**
 * Spawns when all workers were busy for longer than `overload` ticks, and keeps one free worker (uWSGI 2.0.21,
 * core/master_utils.c, `uwsgi_cheaper_algo_spare`; HEAD spawns one tick earlier).
 */
export function spare(snapshot: Snapshot, state: Ticks = { overloaded: 0, idle: 0 }): Decision<Ticks> {
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

/**
 * Keeps `minimum` workers idle: spawns what is missing, and stops one after `idle` ticks with more (uWSGI HEAD,
 * core/master_utils.c, `uwsgi_cheaper_algo_spare2`).
 *
 * @param state for how many ticks more workers than `minimum` were idle
 */
export function spare2(snapshot: Snapshot, state = 0): Decision<number> {
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

/**
 * Grows while more than `overload` tasks wait, and shrinks while fewer do (uWSGI, core/master_utils.c,
 * `uwsgi_cheaper_algo_backlog`).
 */
export function backlog(snapshot: Snapshot): Decision {
  const { workers, options, canSpawn, backlog } = snapshot
  const { present } = census(snapshot)
  const held = { target: hold(snapshot), state: undefined }
  const reason = `${backlog} waiting`

  if (workers.length === 0) return { ...held, reason: 'no worker lives' }
  if (canSpawn && backlog > options.overload)
    return { ...held, target: grow(snapshot, options.step ?? 1), reason }
  if (backlog < options.overload && present > options.minimum)
    return { ...held, target: shrink(snapshot), reason }
  return { ...held, reason }
}

/** Changes nothing: people set the number of workers. */
export function manual(snapshot: Snapshot): Decision {
  return { target: hold(snapshot), state: undefined, reason: 'by hand only' }
}

/** How long idle workers are kept: the next task may arrive soon. */
const IDLE_MICROS = 1_000_000

interface Idleness {
  /** Undefined: there is something to do. */
  readonly idleSince?: number
}

/** As many workers as there are tasks and signals, and none when there have been none for a second: `spooler-cheap`. */
export function cheap(snapshot: Snapshot, state: Idleness = {}): Decision<Idleness> {
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
