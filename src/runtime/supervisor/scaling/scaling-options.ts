/** uWSGI's units: `overload` and `idle` are ticks, but seconds in `busyness`. */
export interface ScalingOptions {
  readonly minimum: number
  readonly maximum: number
  /** How many workers are spawned at once; undefined: 1, and no limit for `latency`. */
  readonly step: number | undefined
  readonly overload: number
  /** For `spare2`. */
  readonly idle: number
  readonly busyness: BusynessOptions
  /** For `latency`: how long at most 5 % of the tasks may wait longer. */
  readonly waitMicros: number
  /** So many workers can start at once without slowing each other down. */
  readonly processors: number
}

interface BusynessOptions {
  /** Percent. */
  readonly min: number
  readonly max: number
  readonly multiplier: number
  readonly penalty: number
  readonly isVerbose: boolean
  readonly backlogAlert: number
  readonly backlogMultiplier: number
  readonly backlogStep: number
  /** Seconds. */
  readonly backlogNonzero: number
}

/** Between two decisions of an algorithm that is also asked between ticks. */
export const EAGER_PACE_MS = 20

/** uWSGI's, and for `latency` ours. */
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
