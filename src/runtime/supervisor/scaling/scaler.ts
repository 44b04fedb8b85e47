import { MAX_TIMER_MS } from '../../../base/clock.js'
import { describe, messageOf } from '../../../base/errors.js'
import { type Decision, hold, type Snapshot } from './algorithm.js'
import type { NamedAlgorithm } from './algorithms.js'

interface ScalerDecision extends Decision {
  /** What is wrong with the algorithm; only with its first failure. */
  readonly problem?: string
}

/** What asks to be asked again at once would have the master do nothing else. */
const SOONEST_MICROS = 20_000
const LATEST_MICROS = MAX_TIMER_MS * 1000

/**
 * An algorithm at work on one pool. Whatever the algorithm answers, the target is never below the minimum or above the
 * maximum, and never grows while nothing may be spawned. An algorithm that throws or answers nonsense holds the pool.
 */
export class Scaler {
  readonly algorithm: NamedAlgorithm
  readonly #decide: (snapshot: Snapshot) => Decision
  #hasFailed = false

  constructor(algorithm: NamedAlgorithm) {
    this.algorithm = algorithm
    this.#decide = algorithm.open()
  }

  decide(snapshot: Snapshot): ScalerDecision {
    try {
      const decision: unknown = this.#decide(snapshot)
      if (isDecision(decision)) return within(decision, snapshot)
      const expected = `expected { target, state, reason }, got ${describe(decision)}`
      if (!(decision instanceof Promise)) return this.#failed(snapshot, expected)
      decision.catch(() => {}) // what nobody hears of would end the daemon
      return this.#failed(snapshot, `${expected}; it has to answer at once`)
    } catch (error) {
      return this.#failed(snapshot, messageOf(error))
    }
  }

  #failed(snapshot: Snapshot, error: string): ScalerDecision {
    const held = {
      target: allowed(hold(snapshot), snapshot),
      state: undefined,
      reason: 'the algorithm failed',
    }
    if (this.#hasFailed) return held
    this.#hasFailed = true
    return { ...held, problem: `${this.algorithm.name}: ${error}` }
  }
}

function within(decision: Decision, snapshot: Snapshot): Decision {
  const { askAgainMicros, target } = decision
  const kept = { ...decision, target: allowed(target, snapshot) }
  if (askAgainMicros === undefined) return kept
  return { ...kept, askAgainMicros: Math.min(LATEST_MICROS, Math.max(SOONEST_MICROS, askAgainMicros)) }
}

function allowed(target: number, { options, target: current, canSpawn }: Snapshot): number {
  const highest = canSpawn ? options.maximum : Math.min(options.maximum, current)
  return Math.max(options.minimum, Math.min(highest, target))
}

/** It may come from a module of the user's. */
function isDecision(value: unknown): value is Decision {
  if (typeof value !== 'object' || value === null) return false
  const { target, reason, lines, askAgainMicros } = value as Record<string, unknown>
  return (
    Number.isInteger(target) &&
    typeof reason === 'string' &&
    (lines === undefined || (Array.isArray(lines) && lines.every(line => typeof line === 'string'))) &&
    (askAgainMicros === undefined || Number.isFinite(askAgainMicros))
  )
}
