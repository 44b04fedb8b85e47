import { displayName } from '../../base/task/ref.js'
import type { Terms } from '../../base/task/terms.js'
import type { Claim } from '../../engines/claims.js'
import {
  argumentsOf,
  type CallArguments,
  DEFAULT_QUEUE,
  ID_KEY,
  QUEUE_KEY,
  taskNameOf,
} from '../../formats/protocol/named.js'
import { lastValue } from '../../formats/protocol/vars.js'
import { giveUp } from './perform.js'
import { freezeTask, type ScheduledTask, type TaskStatus } from './scheduled-task.js'

/** Returns the named task of a claim, from its packet and its terms. @throws SpooldError ARGUMENTS_INVALID */
export function claimedTask(
  claim: Pick<Claim, 'vars' | 'name' | 'dueAtMs' | 'attempt' | 'terms' | 'readBody'>,
  status: TaskStatus,
  { args, kwargs }: CallArguments = argumentsOf(claim.vars, () => claim.readBody()),
): ScheduledTask {
  const { vars, terms } = claim
  const textOf = (key: string) => {
    const value = lastValue(vars, key)
    return value === undefined ? undefined : displayName(value)
  }
  const { maxAttempts = 1 } = terms?.policy ?? {}
  return freezeTask({
    id: textOf(ID_KEY) ?? claim.name,
    status,
    name: terms === undefined ? displayName(taskNameOf(vars) ?? '') : ownNameOf(terms),
    queue: textOf(QUEUE_KEY) ?? DEFAULT_QUEUE,
    at: new Date(claim.dueAtMs),
    maxRetries: maxAttempts === 0 ? Number.POSITIVE_INFINITY : maxAttempts - 1,
    retries: claim.attempt - 1,
    args,
    ...(kwargs === undefined ? {} : { kwargs }),
  })
}

/** Returns the name under which the task was registered. */
function ownNameOf({ name, namespace }: Terms): string {
  return namespace === undefined ? name : name.slice(namespace.length + 1)
}

/** Returns the arguments for the function of the task. @throws AbortTask if no run could take these arguments */
export function argumentsIn(claim: Pick<Claim, 'vars' | 'readBody'>): readonly unknown[] {
  try {
    const { args, kwargs } = argumentsOf(claim.vars, () => claim.readBody())
    return kwargs === undefined ? args : [...args, kwargs]
  } catch (error) {
    return giveUp(error)
  }
}
