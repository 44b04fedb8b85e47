import { realpathSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { MAX_TIMER_MS, withDeadline } from '../../../base/clock.js'
import { describe, messageOf, SpooldError } from '../../../base/errors.js'
import { isThenable } from '../../../base/promise.js'
import { type Algorithm, type Decision, hold, type ScalingOptions, type Snapshot } from './algorithm.js'
import { busyness, busynessSettings } from './busyness.js'
import { latency } from './latency.js'
import { backlog, cheap, manual, spare, spare2 } from './uwsgi-algorithms.js'

export interface NamedAlgorithm {
  /** The name in `cheaper-algo`. */
  readonly name: string
  /** True if the algorithm is also asked between ticks, when tasks arrive or end. */
  readonly isEager?: boolean
  /** The lines that the algorithm writes to the log before the first tick. */
  introduce?(options: ScalingOptions): readonly string[]
  /** @see Algorithm */
  decide(snapshot: Snapshot, state: unknown): Decision
}

/** The algorithms that `cheaper-algos-list` shows; the first is the default. */
export const ALGORITHMS: readonly NamedAlgorithm[] = [
  { name: 'spare', decide: spare },
  { name: 'spare2', decide: spare2 },
  { name: 'backlog', decide: backlog },
  { name: 'busyness', decide: busyness, introduce: busynessSettings },
  { name: 'manual', decide: manual },
  { name: 'cheap', decide: cheap, isEager: true },
  { name: 'latency', decide: latency, isEager: true },
]

/**
 * Returns one of `ALGORITHMS`; or, if the name has a slash and so is a file, what that module exports as default or as `decide`.
 *
 * @throws SpooldError ALGORITHM_UNLOADABLE
 */
export async function loadAlgorithm(name: string): Promise<NamedAlgorithm> {
  const known = ALGORITHMS.find(algorithm => algorithm.name === name)
  if (known !== undefined) return known
  if (name.includes('/')) return { name, decide: await importAlgorithm(resolve(name)) }
  const names = ALGORITHMS.map(algorithm => algorithm.name).join(', ')
  throw new SpooldError(
    'ALGORITHM_UNLOADABLE',
    `expected one of ${names}, or a file like ./mine.mjs, got ${describe(name)}`,
  )
}

/** The limit for a module to load: one whose top-level `await` never settles must not block a start or a reload for ever. */
const LOAD_MS = 10_000

async function importAlgorithm(path: string): Promise<Algorithm> {
  let exported: object
  try {
    exported = await withDeadline(importAnew(realpathSync(path)), LOAD_MS, () => {
      throw new Error(`it is still loading after ${LOAD_MS / 1000} s`)
    })
  } catch (error) {
    throw new SpooldError('ALGORITHM_UNLOADABLE', `${path} could not be loaded: ${messageOf(error)}`)
  }
  const decide = decideOf(exported)
  if (decide !== undefined) return decide
  const names = Object.keys(exported).join(', ') || 'nothing'
  throw new SpooldError(
    'ALGORITHM_UNLOADABLE',
    `${path} exports no algorithm: expected a default function or one named "decide", got ${names}`,
  )
}

/** Imports the module as it is now, so that a reload finds changes, except in modules that this one imports. */
function importAnew(path: string): Promise<object> {
  delete createRequire(path).cache[path]
  return import(`${pathToFileURL(path).href}?changed=${statSync(path).mtimeMs}`)
}

function decideOf(exported: object): Algorithm | undefined {
  const inner = 'default' in exported ? exported.default : undefined
  const candidates = [inner, 'decide' in exported ? exported.decide : undefined]
  if (typeof inner === 'object' && inner !== null && 'default' in inner) candidates.push(inner.default)
  return candidates.find(isAlgorithm)
}

/** What the function returns is checked at each decision. */
function isAlgorithm(value: unknown): value is Algorithm {
  return typeof value === 'function'
}

interface ScalerDecision extends Decision {
  /** What is wrong with the algorithm; present only at its first failure. */
  readonly problem?: string
}

/** An algorithm that wants to be asked again at once would keep the master busy with nothing else. */
const SOONEST_MICROS = 20_000
const LATEST_MICROS = MAX_TIMER_MS * 1000

/**
 * An algorithm at work on one pool. Whatever it answers, the target is never below the minimum or above the maximum, and never
 * grows while nothing may be spawned. If it throws or answers nonsense, the pool keeps its size.
 */
export class Scaler {
  readonly algorithm: NamedAlgorithm
  /** The state that the last decision returned. */
  #state: unknown
  #hasFailed = false

  constructor(algorithm: NamedAlgorithm) {
    this.algorithm = algorithm
  }

  decide(snapshot: Snapshot): ScalerDecision {
    try {
      const decision: unknown = this.#ask(snapshot)
      if (isDecision(decision)) return within(decision, snapshot)
      const expected = `expected { target, state, reason }, got ${describe(decision)}`
      if (!isThenable(decision)) return this.#failed(snapshot, expected)
      decision.then(undefined, () => {}) // an unhandled rejection would end the daemon
      return this.#failed(snapshot, `${expected}; it has to answer at once`)
    } catch (error) {
      return this.#failed(snapshot, messageOf(error))
    }
  }

  #ask(snapshot: Snapshot): unknown {
    const decision = this.algorithm.decide(snapshot, this.#state)
    this.#state = decision?.state // a user's module may return nothing
    return decision
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

/** Checks the answer, which may come from a user's module. */
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
