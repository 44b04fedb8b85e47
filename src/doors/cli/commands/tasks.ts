import { ACTIONS, type TaskAction } from '../../../admin/operate/actions.js'
import type { Args } from '../../../admin/operate/args.js'
import { SpooldError } from '../../../base/errors.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { refused } from '../../../engines/spool/admin/change.js'
import type { TaskStore } from '../../../engines/task-store.js'
import { ownerOf } from '../acting-owner.js'
import type { Action, ChangeOptions } from '../change-report.js'
import type { CommandContext } from '../context.js'
import { parseTaskPath } from '../task-paths.js'
import { changeTasks } from './change.js'

/** The states of living tasks that are not running. */
const AT_REST = ['due', 'waiting', 'retrying', 'held'] as const
const ALIVE = [...AT_REST, 'running'] as const

/** What the table of actions says, for a command that selects tasks itself. */
function taken(action: TaskAction, args: Args = {}): Pick<Action, 'done' | 'act' | 'endsRuns'> {
  const change = action.change(args)
  return {
    done: action.done,
    endsRuns: change.kind === 'cancel',
    act: (store, task, say) => store.change(task, change, say),
  }
}

const changing =
  (action: Action) =>
  (paths: readonly string[], options: ChangeOptions, context: CommandContext): Promise<number> =>
    changeTasks(paths, options, action, context)

export const rm = changing({
  command: 'rm',
  verb: 'remove',
  states: ALIVE,
  isForDead: true,
  ...taken(ACTIONS.remove),
})

export const hold = changing({
  command: 'hold',
  verb: 'hold',
  states: ['due', 'waiting', 'retrying', 'running'],
  isForDead: false,
  ...taken(ACTIONS.hold),
})

export const release = changing({
  command: 'release',
  verb: 'release',
  states: ['held'],
  isForDead: false,
  ...taken(ACTIONS.release),
})

export const kick = changing({
  command: 'kick',
  verb: 'kick',
  states: AT_REST,
  isForDead: false,
  ...taken(ACTIONS.kick),
})

export const cancel = changing({
  command: 'cancel',
  verb: 'cancel',
  states: ALIVE,
  isForDead: false,
  ...taken(ACTIONS.cancel),
})

export function requeue(
  paths: readonly string[],
  options: ChangeOptions & { readonly keepAttempts?: boolean },
  context: CommandContext,
): Promise<number> {
  const { keepAttempts = false } = options
  const action: Action = {
    command: 'requeue',
    verb: 'requeue',
    states: ['dead'],
    isForDead: true,
    ...taken(ACTIONS.requeue, keepAttempts ? { keepAttempts: 'yes' } : {}),
  }
  return changeTasks(paths, options, action, context)
}

/** They share round trips and syncs. */
const MOVED_AT_ONCE = 32

export async function move(
  paths: readonly string[],
  options: ChangeOptions & { readonly to: string },
  context: CommandContext,
): Promise<number> {
  const { spool, ref, shown: target } = parseTaskPath(options.to)
  if (ref !== undefined)
    throw new SpooldError(
      'USAGE',
      `--to: expected a spool directory, or the address of a spool on Redis, got ${options.to}`,
    )
  let to: TaskStore | undefined
  const action: Action = {
    command: 'move',
    verb: 'move',
    done: 'moved',
    states: ALIVE,
    isForDead: false,
    target,
    atOnce: MOVED_AT_ONCE,
    isSummedUp: true,
    async prepare() {
      const owner = ownerOf(spool) // still root here, so the tasks are root's, and the target is not
      if (owner !== null)
        throw new SpooldError(
          'SPOOL_UNUSABLE',
          `${target} belongs to uid ${owner.uid}, in whose directories root does nothing: give the tasks to that user (chown), or their spool`,
        )
      to = await openTaskStore(spool)
    },
    act: (from, task) =>
      to === undefined ? refused('there is no target') : from.change(task, { kind: 'move', to }),
  }
  return changeTasks(paths, options, action, context)
}
