import { times } from '../counted.js'
import { parseDuration } from '../time-text.js'
import type { ParkReason } from './parked.js'
import type { Ref } from './ref.js'

/** The terms on which the handlers of a worker run one task, known before it runs. They take precedence over the options. */
export interface Terms {
  /** The task's name as in its packet, for people, who also see the name of its file. */
  readonly name: string
  /** The part of the name that comes before the one that the task's code knows; undefined: nothing. */
  readonly namespace?: string
  /** How the task is delivered, unless its packet names a delivery of its own. */
  readonly delivery: Delivery
  /** The retry policy. What a handler asks for in an answer takes precedence over it. */
  readonly policy: Partial<RetryPolicy>
  /** The slots of which the task needs one to run; undefined if it needs none. */
  readonly slots?: NamedSlots
}

/** `unknown-name`: no handler of this worker takes it, so it is to be parked. Undefined: the options apply. */
export type TermsOrPark = Terms | Extract<ParkReason, 'unknown-name'> | undefined

export const DELIVERIES = ['at-least-once', 'at-most-once'] as const

/**
 * What happens to a task whose process dies during the run: it runs again, or it is buried because its outcome is unknown.
 */
export type Delivery = (typeof DELIVERIES)[number]

export function isDelivery(value: unknown): value is Delivery {
  return DELIVERIES.some(delivery => delivery === value)
}

/** The slots of all tasks of one name (`maxConcurrency`): each task that runs has one, whichever worker and daemon runs it. */
export interface NamedSlots {
  readonly name: string
  readonly count: number
}

/** Tasks that are parked because all slots of their name are taken. */
export interface SlotQueueStats extends NamedSlots {
  readonly parked: number
}

/** A master's news to a worker, by which tasks take slots in order. */
export interface SlotNews {
  /** The names of tasks that wait for slots; absent: they are as before. */
  readonly queued?: readonly string[]
  /** Those of the refs in this message that may take a slot though others wait. */
  readonly tries: readonly Ref[]
  /** The name of the tasks that come with this message, which may wait until others of the name end in this worker. */
  readonly follow?: string
}

/** How many slots of a name are wanted: for the tasks that could follow those that a worker runs, or for those that wait. */
export interface SlotWish extends NamedSlots {
  readonly wanted: number
}

/** When a failed task runs again, and when it is buried. */
export interface RetryPolicy {
  /** Bury a task after this many failed runs; 0 means never, as in uWSGI. */
  readonly maxAttempts: number
  /** The option or setting that gives this limit, for people, if it is not spooler-max-attempts. */
  readonly attemptsLimit?: string
  /** Bury a task after this many crashes; 0 means never. */
  readonly maxCrashes: number
  readonly backoff: Backoff
  /** The delay of a retry (`fixed`), or of the first one (`exponential`); null means the default. */
  readonly delayMs: number | null
  /** The maximum delay of `exponential`. */
  readonly capMs: number
}

/** `none`: at once, after the tasks that are already due. */
export type Backoff = 'none' | 'fixed' | 'exponential'

/** The first delay of `exponential`, if the options say nothing. */
export const FIRST_DELAY_MS = 3000
/**
 * The longest delay, some 7,000 years; a longer one is cut to it. A handler may ask for 2 ** n seconds, and the time of the
 * next run has to fit into the time of a file. A file system with an earlier end takes its last second.
 */
export const LONGEST_DELAY_MS = 7000 * 365 * 86_400_000

/** Returns a duration in ms. @param value seconds, or text such as `5m` @returns undefined for anything else */
export function durationMs(value: unknown): number | undefined {
  const ms = typeof value === 'number' ? value * 1000 : parseDuration(typeof value === 'string' ? value : '')
  return ms !== undefined && ms >= 0 && value !== Number.POSITIVE_INFINITY
    ? Math.min(ms, LONGEST_DELAY_MS)
    : undefined
}

/** The largest exponent: 2 to the next power is Infinity. */
const MOST_DOUBLED = 1023

/**
 * The delay after failed run number `attempts`, from 1.
 *
 * `exponential`: between half of min(3 · 2^n, cap) seconds and all of it, at random, so that tasks that failed together do
 * not retry together.
 *
 * @param frequencyMs the default delay of `fixed`
 */
export function retryDelayMs(
  { backoff, delayMs, capMs }: RetryPolicy,
  attempts: number,
  frequencyMs: number,
  random = Math.random,
): number {
  if (backoff === 'none') return 0
  if (backoff === 'fixed') return delayMs ?? frequencyMs
  // the exponent is bounded, because 0 times Infinity would be no number
  const half = Math.min((delayMs ?? FIRST_DELAY_MS) * 2 ** Math.min(attempts, MOST_DOUBLED), capMs) / 2
  return Math.round(half + random() * half)
}

/** Why a task has no run left: a reason of dead letters, and a sentence for people. */
interface LimitReached {
  readonly reason: 'attempts' | 'crashes'
  readonly detail: string
}

/** Returns the limit that a task has reached; undefined if it may run again. */
export function limitReached(
  { maxAttempts, attemptsLimit = 'spooler-max-attempts', maxCrashes }: RetryPolicy,
  { attempts, crashes }: { readonly attempts: number; readonly crashes: number },
): LimitReached | undefined {
  if (maxCrashes > 0 && crashes >= maxCrashes)
    return {
      reason: 'crashes',
      detail: `it crashed its process ${times(crashes)} while it ran alone, as often as it may (spooler-max-crashes)`,
    }
  if (maxAttempts > 0 && attempts >= maxAttempts)
    return {
      reason: 'attempts',
      detail: `it failed ${times(attempts)}, as often as it may (${attemptsLimit})`,
    }
  return undefined
}

/** After its first crash a task runs again at once, then after 1 s, 2 s, 4 s, … up to `capMs`. */
export function crashDelayMs(crashes: number, capMs: number): number {
  return crashes <= 1 ? 0 : Math.min(1000 * 2 ** (crashes - 2), capMs)
}

/** Precedes what the last run failed with, in the detail of a limit that is reached. */
export const LAST_ERROR = '; the last error: '
