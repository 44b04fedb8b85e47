import { describe, SpooldError } from '../../base/errors.js'
import type { Backoff, Terms } from '../../base/task/terms.js'
import { nameFault, queueFault } from '../../formats/protocol/named.js'
import { durationMs } from './durations.js'
import { PERIODIC_CHECKS, type PeriodicSettings } from './periodic.js'
import { isStandardSchema, type StandardSchema } from './standard-schema.js'

/** What a task may say of itself, and a registry for all of its tasks. */
export interface TaskSettings {
  /** The queue that it is scheduled for: a name for a spool. Default: `default`. */
  readonly queue?: string
  /**
   * How often it runs again after a failure: n means n + 1 runs at most, a crash of the process counted. Infinity: no
   * limit. Default 0: it is delivered at most once.
   */
  readonly maxRetries?: number
  /** How the delay before a retry grows; with `none` there is no delay, whatever `retryDelay` says. Default: the daemon's spooler-backoff. */
  readonly backoff?: Backoff
  /** The delay before a retry, or the first one: seconds, or text such as `'5m'`. Default: spooler-retry-delay. */
  readonly retryDelay?: number | string
  /** The longest delay of `exponential`: seconds, or text such as `'20m'`. Default: spooler-backoff-cap. */
  readonly backoffCap?: number | string
}

/** The defaults of a registry's tasks, and what is said of all of them together. */
export interface RegistrySettings extends TaskSettings {
  /** Comes before the names of its tasks: `shop:send-mail`. Those of other namespaces in the same spool are not its own. */
  readonly namespace?: string
}

/** What only a single task may say of itself. */
export interface OwnSettings extends PeriodicSettings {
  /**
   * How many tasks of its name run at a time, over all workers and daemons of their spool. It has to have `maxRetries`.
   * Default: no limit.
   */
  readonly maxConcurrency?: number
  /**
   * How many arguments a call needs. Default: the parameters before the first one with a default value. A parameter that is
   * optional in TypeScript alone (`cc?: string`) has no mark at run time, so that this has to say it.
   */
  readonly required?: number
}

/** The settings that hold for a task, wherever they are from. */
export type KnownSettings = {
  readonly [Name in keyof Required<TaskSettings>]: TaskSettings[Name] | undefined
} & { readonly maxConcurrency: number | undefined; readonly namespace: string | undefined }

/** The settings of one task. */
export interface TaskDefinition extends TaskSettings, OwnSettings {
  /** Checks the arguments, as an array, when they are scheduled and before each run, which gets what it returns. */
  readonly schema?: StandardSchema
}

const BACKOFFS: readonly unknown[] = ['none', 'fixed', 'exponential']

type Checks = Readonly<Record<string, (value: unknown) => string | undefined>>

const CHECKS: Checks = {
  queue: value => queueFault(value),
  maxRetries: value =>
    value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && Number(value) >= 0)
      ? undefined
      : 'a whole number from 0, or Infinity',
  backoff: value => (BACKOFFS.includes(value) ? undefined : "'none', 'fixed' or 'exponential'"),
  retryDelay: durationFault,
  backoffCap: durationFault,
}

const OF_TASK: Checks = {
  ...CHECKS,
  ...PERIODIC_CHECKS,
  required: value =>
    Number.isSafeInteger(value) && Number(value) >= 0 ? undefined : 'a whole number from 0',
  maxConcurrency: value =>
    Number.isSafeInteger(value) && Number(value) >= 1 ? undefined : 'a whole number from 1',
  schema: value =>
    isStandardSchema(value) ? undefined : 'a schema with ~standard (zod, valibot, ArkType …)',
}

const OF_REGISTRY: Checks = { ...CHECKS, namespace: value => nameFault(value) }

/** The options that a registry has besides its tasks' defaults. */
const DESTINATION = ['spooler', 'socket', 'sync']

/**
 * Checks options that JavaScript callers may have got wrong.
 *
 * @param what whose options they are, for messages
 * @throws SpooldError TASK_INVALID
 */
export function checkSettings(what: string, options: object, kind: 'task' | 'registry'): void {
  const checks = kind === 'task' ? OF_TASK : OF_REGISTRY
  if (typeof options !== 'object' || options === null)
    throw new SpooldError('TASK_INVALID', `${what}: expected an object of options, got ${describe(options)}`)
  const known = Object.keys(checks)
  const others = kind === 'task' ? ['name'] : DESTINATION
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || others.includes(name)) continue
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined
    if (check === undefined)
      throw new SpooldError(
        'TASK_INVALID',
        `${what}: there is no option ${name}; expected one of ${[...known, ...(kind === 'task' ? [] : others)].join(', ')}`,
        { details: { option: name } },
      )
    const expected = check(value)
    if (expected !== undefined)
      throw new SpooldError('TASK_INVALID', `${what}: ${name} must be ${expected}, got ${describe(value)}`, {
        details: { option: name, got: value },
      })
  }
}

/**
 * @param maxRetries of the task, or of its registry
 * @throws SpooldError TASK_INVALID
 */
export function checkConcurrency(what: string, { maxConcurrency }: OwnSettings, maxRetries = 0): void {
  if (maxConcurrency === undefined || maxRetries > 0) return
  throw new SpooldError(
    'TASK_INVALID',
    `${what}: maxConcurrency needs a maxRetries from 1, of the task or of its registry; got ${maxRetries}`,
    { details: { option: 'maxConcurrency', got: maxConcurrency } },
  )
}

function durationFault(value: unknown): string | undefined {
  return durationMs(value) === undefined ? "seconds, or text such as '5m'" : undefined
}

/** What a worker has to know before it runs the task. @param name as in packets */
export function termsOf(name: string, settings: Partial<Omit<KnownSettings, 'queue'>>): Terms {
  const { maxRetries = 0, backoff, retryDelay, backoffCap, maxConcurrency, namespace } = settings
  const delayMs = durationMs(retryDelay)
  const capMs = durationMs(backoffCap)
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    delivery: maxRetries > 0 ? 'at-least-once' : 'at-most-once',
    policy: {
      maxAttempts: maxRetries === Number.POSITIVE_INFINITY ? 0 : maxRetries + 1,
      attemptsLimit: `maxRetries of ${name}`,
      ...(backoff === undefined ? {} : { backoff }),
      ...(delayMs === undefined ? {} : { delayMs }),
      ...(capMs === undefined ? {} : { capMs }),
    },
    ...(maxConcurrency === undefined ? {} : { slots: { name, count: maxConcurrency } }),
  }
}
