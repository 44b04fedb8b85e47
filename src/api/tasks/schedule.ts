import { crypto } from '../../base/on-demand.js'
import type { Request, Stored } from '../../base/task/request.js'
import { addressedFrom, type TaskOptions } from '../../engines/client/request-from.js'
import { forgetTargets } from '../../engines/client/target.js'
import type { Enqueuer } from '../../engines/enqueuer.js'
import { ARGS_KEY, DEFAULT_QUEUE, ID_KEY, QUEUE_KEY, TASK_KEY } from '../../formats/protocol/named.js'
import { checkCount, toStored, validated } from '../../runtime/tasks/arguments.js'
import type { CallOptions, When } from '../../runtime/tasks/call-options.js'
import { enqueuerOf } from '../../runtime/tasks/destinations.js'
import { type Call, enqueueThrough, layersOf } from '../../runtime/tasks/onion.js'
import { isDestination } from '../../runtime/tasks/queues.js'
import { fullNameOf, settingOf } from '../../runtime/tasks/registry.js'
import { freezeTask, type ScheduledTask, TaskStatus } from '../../runtime/tasks/scheduled-task.js'

/** A call that has passed every check, and is not stored yet. */
export interface CheckedCall {
  readonly request: Request
  readonly enqueuer: Enqueuer
  /** Returns the task as it is once it is stored. */
  readonly scheduled: (stored: Stored) => ScheduledTask
}

/** Stores one task. @throws the errors of `checked`; SpooldError SPOOL_FULL, ENQUEUE_FAILED … as `spool` does */
export function schedule(call: Call): Promise<ScheduledTask> {
  const layers = layersOf(call.entry.registry, 'enqueue')
  return layers.length === 0 ? store(call) : enqueueThrough(layers, call, store)
}

async function store(call: Call): Promise<ScheduledTask> {
  const { schema } = call.entry.definition
  if (schema !== undefined) await validated(call.entry.name, schema, call.args)
  const { request, enqueuer, scheduled } = checked(call)
  try {
    return scheduled(enqueuer.storeAtOnce?.(request) ?? (await enqueuer.store(request)))
  } catch (error) {
    forgetTargets()
    throw error
  }
}

/**
 * Checks all that can be checked without waiting.
 *
 * @throws SpooldError ARGUMENTS_INVALID, QUEUE_UNKNOWN, DESTINATION_MISSING, REQUEST_INVALID
 */
export function checked({ entry, args, at, options }: Call): CheckedCall {
  const { name, fewest, most, registry } = entry
  if (entry.definition.schema === undefined) checkCount(name, fewest, most, args.length)
  const stored = toStored(name, args)
  const queue = settingOf(entry, 'queue') ?? DEFAULT_QUEUE
  const maxRetries = settingOf(entry, 'maxRetries') ?? 0
  const { own, attached } = registry.destination
  const enqueuer = registry.standIn ?? enqueuerOf(queue, isDestination(options) ? options : own, attached)
  const id = options.id ?? crypto().randomUUID()
  const dictionary: Record<string, string> = {
    [TASK_KEY]: fullNameOf(entry),
    [ARGS_KEY]: stored.args,
    [ID_KEY]: id,
  }
  if (queue !== DEFAULT_QUEUE) dictionary[QUEUE_KEY] = queue
  const { request } = addressedFrom(dictionary, taskOptions(stored.body, at, options))
  const scheduled = ({ isDuplicate }: Stored): ScheduledTask => {
    const nowMs = Date.now()
    const atMs = request.atSeconds === undefined ? nowMs : request.atSeconds * 1000
    const due = atMs > nowMs ? TaskStatus.WAITING : TaskStatus.QUEUED
    const status = isDuplicate ? TaskStatus.NOT_SET : due
    return freezeTask({ id, status, name, queue, at: new Date(atMs), maxRetries, retries: 0, args })
  }
  return { request, enqueuer, scheduled }
}

/** The options of most calls. */
const NO_OPTIONS: TaskOptions = {}

function taskOptions(
  body: Buffer | undefined,
  at: When | undefined,
  { id, priority }: CallOptions,
): TaskOptions {
  if (body === undefined && at === undefined && id === undefined && priority === undefined) return NO_OPTIONS
  return {
    ...(body === undefined ? {} : { body }),
    ...(at === undefined ? {} : { at }),
    ...(id === undefined ? {} : { id }),
    ...(priority === undefined ? {} : { priority }),
  }
}
