import { opendirSync } from 'node:fs'
import { ACTIONS, type TaskAction } from '../../../admin/operate/actions.js'
import type { Args } from '../../../admin/operate/args.js'
import { errnoOf, SpooldError } from '../../../base/errors.js'
import { printable } from '../../../base/printable.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { refused } from '../../../engines/spool/admin/change.js'
import { type FileState, inspectFile } from '../../../engines/spool/admin/task-view.js'
import { hasUwsgiPrefix, isPriorityDirectory, STATE_DIRECTORY } from '../../../engines/spool/names.js'
import { prepareSpool } from '../../../engines/spool/permissions.js'
import type { TaskStore } from '../../../engines/task-store.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { readLocks } from '../../../system/files/lock-table.js'
import { ownerOf } from '../acting-owner.js'
import type { Action, ChangeOptions } from '../change-report.js'
import type { CommandContext } from '../context.js'
import { type Place, placeAt } from '../places.js'
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
  words: readonly string[],
  options: ChangeOptions & { readonly to: string; readonly create?: boolean },
  context: CommandContext,
): Promise<number> {
  const place = placeAt(options.to)
  const { shown: target } = place
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
    async prepare(isDry) {
      const spool = targetOf(place, options.create === true, isDry)
      const owner = ownerOf(spool) // still root here, so the tasks are root's, and the target is not
      if (owner !== null)
        throw new SpooldError(
          'SPOOL_UNUSABLE',
          `${target} belongs to uid ${owner.uid}, in whose directories root does nothing: give the tasks to that user (chown), or their spool`,
        )
      if (!isDry) to = await openTaskStore(spool)
    },
    act: (from, task) =>
      to === undefined ? refused('there is no target') : from.change(task, { kind: 'move', to }),
  }
  return changeTasks(words, options, action, context)
}

/**
 * Refuses what is hardly meant as a spool.
 *
 * @param mayMake missing or not, it is one from now on
 * @returns its real path, or its name on Redis
 * @throws SpooldError USAGE, SPOOL_UNUSABLE
 */
function targetOf({ shown, spool, fault }: Place, mayMake: boolean, isDry: boolean): string {
  if (isRedisAddress(spool)) return spool
  if (fault !== undefined && errnoOf(fault.cause) !== 'ENOENT')
    throw new SpooldError(
      'USAGE',
      `--to: expected a spool directory, or the address of a spool on Redis, got ${shown}`,
      { cause: fault },
    )
  if (fault !== undefined && mayMake) return isDry ? spool : prepareSpool(spool)
  const why = fault === undefined ? foreignIn(spool) : 'does not exist'
  if (why === undefined || mayMake) return spool
  throw new SpooldError('SPOOL_UNUSABLE', `--to: ${shown} ${why}: with --create it is a spool from now on`)
}

/** So many entries of a directory are looked at. */
const MOST_LOOKED_AT = 1000

/** What shows that no daemon, and no program that stores tasks, has used a directory. */
function foreignIn(directory: string): string | undefined {
  const listing = opendirSync(directory)
  try {
    const locks = readLocks()
    let foreign: string | undefined
    for (let left = MOST_LOOKED_AT; left > 0; left--) {
      const entry = listing.readSync()
      if (entry === null) break
      const { name } = entry
      if (name.startsWith(STATE_DIRECTORY)) return undefined // or what one of ours was about to store
      const isTask = entry.isDirectory()
        ? isPriorityDirectory(name)
        : hasUwsgiPrefix(name) || HAS_PACKET.has(inspectFile(`${directory}/${name}`, locks, Date.now()).state)
      if (!isTask) foreign ??= `holds ${printable(name)}, which is no task, and no ${STATE_DIRECTORY}`
    }
    return foreign
  } finally {
    listing.closeSync()
  }
}

const HAS_PACKET: ReadonlySet<FileState> = new Set(['due', 'waiting', 'running'])
