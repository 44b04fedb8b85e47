import { Histogram } from '#src/base/task/histogram.js'
import type {
  Decision,
  ScaledWorker,
  ScalingOptions,
  Snapshot,
} from '#src/runtime/supervisor/scaling/algorithm.js'
import type { NamedAlgorithm } from '#src/runtime/supervisor/scaling/algorithms.js'

export const SECOND = 1_000_000

/** uWSGI's defaults, and ours for `latency`. */
export const SCALING_DEFAULTS = {
  step: undefined,
  overload: 3,
  idle: 10,
  busyness: {
    min: 25,
    max: 50,
    multiplier: 10,
    penalty: 2,
    isVerbose: false,
    backlogAlert: 33,
    backlogMultiplier: 3,
    backlogStep: 1,
    backlogNonzero: 60,
  },
  waitMicros: 250_000,
} as const satisfies Partial<ScalingOptions>

/** uWSGI's defaults, for 2 to 10 workers. */
export const OPTIONS: ScalingOptions = { ...SCALING_DEFAULTS, minimum: 2, maximum: 10, processors: 16 }

/** Returns one worker per letter: `b` is busy, `i` idle, `s` starting. */
export function workers(states: string, busyMicros = 0): ScaledWorker[] {
  return [...states].map((state, at) => ({
    number: at + 1,
    isStarting: state === 's',
    isBusy: state === 'b',
    busyMicros,
  }))
}

/** Returns the snapshot that an algorithm sees. Nothing waits or happens, unless `given` says otherwise. */
export function snapshot(states: string, given: Partial<Snapshot> = {}): Snapshot {
  const living = given.workers ?? workers(states)
  return {
    options: OPTIONS,
    nowMicros: SECOND,
    openedMicros: 0,
    workers: living,
    delayed: 0,
    target: living.length + (given.delayed ?? 0),
    canSpawn: true,
    backlog: 0,
    running: living.filter(({ isBusy }) => isBusy).length,
    signals: 0,
    arrived: 0,
    finished: 0,
    runs: new Histogram(),
    waits: new Histogram(),
    ...given,
  }
}

/** Returns an algorithm that keeps its state from one decision to the next. Its decisions are not limited. */
export function remembering(algorithm: NamedAlgorithm): (snapshot: Snapshot) => Decision {
  let state: unknown
  return seen => {
    const decision = algorithm.decide(seen, state)
    state = decision.state
    return decision
  }
}
