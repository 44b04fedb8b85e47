import { describe, SpooldError } from '../../base/errors.js'
import { type Backoff, durationMs, type Terms } from '../../base/task/terms.js'
import { nameFault, queueFault } from '../../formats/protocol/named.js'
import { PERIODIC_CHECKS, type PeriodicSettings } from './periodic.js'
import { isStandardSchema, type StandardSchema } from './standard-schema.js'

/** The settings that a task may have, and that a registry may have for all of its tasks. */
export interface TaskSettings {
  /** The queue for which the task is scheduled: a name for a spool. Default: `default`. */
  readonly queue?: string
  /**
   * How often the task runs again after a failure: n means at most n + 1 runs, including a run that ends with a crash of the
   * process. Infinity: no limit. Default 0: the task is delivered at most once.
   */
  readonly maxRetries?: number
  /** How the delay before a retry grows. `none`: no delay, whatever `retryDelay` says. Default: the daemon's spooler-backoff. */
  readonly backoff?: Backoff
  /** The delay before a retry, or the first one: seconds, or text such as `'5m'`. Default: spooler-retry-delay. */
  readonly retryDelay?: number | string
  /** The longest delay of `exponential`: seconds, or text such as `'20m'`. Default: spooler-backoff-cap. */
  readonly backoffCap?: number | string
}

/** The defaults of a registry's tasks, and the settings of all its tasks together. */
export interface RegistrySettings extends TaskSettings {
  /** The text before the names of the tasks: `shop:send-mail`. Tasks of other namespaces in the same spool are not its own. */
  readonly namespace?: string
}

/** The settings that only a single task may have. */
export interface OwnSettings extends PeriodicSettings {
  /**
   * How many tasks of this name run at a time, over all workers and daemons of their spool. It needs a `maxRetries` from 1.
   * Default: no limit.
   */
  readonly maxConcurrency?: number
  /**
   * How many arguments a call needs. Default: the number of parameters before the first one with a default value. Set it for a
   * parameter that is optional in TypeScript alone (`cc?: string`), because that is invisible at run time.
   */
  readonly required?: number
}

/** The settings that hold for a task, whether they are its own or inherited. */
export type KnownSettings = {
  readonly [Name in keyof Required<TaskSettings>]: TaskSettings[Name] | undefined
} & { readonly maxConcurrency: number | undefined; readonly namespace: string | undefined }

/** The settings of one task. */
export interface TaskDefinition extends TaskSettings, OwnSettings {
  /** Checks the array of arguments when the task is scheduled and before each run. The run gets the arguments that it returns. */
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

/** The options that a registry has besides the defaults of its tasks. */
const DESTINATION = ['spooler', 'socket', 'sync']

/**
 * Checks options that JavaScript callers may have got wrong.
 *
 * @param what the task or registry whose options they are, for messages
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
 * Checks that a task with `maxConcurrency` may run again.
 *
 * @param maxRetries the setting of the task, or else of its registry
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

/** Returns the terms of a task, which a worker has to know before it runs the task. @param name as in packets */
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
