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

/** The states of living tasks that can be read, running ones included: a command also reports those that it leaves alone. */
const ALIVE = ['due', 'waiting', 'retrying', 'held', 'running'] as const

/** Turns a row of the table of actions into the action of a command, which selects its tasks itself. */
function actionOf(command: string, action: TaskAction, own: Partial<Action> = {}, args: Args = {}): Action {
  const { done, states } = action
  const change = action.change(args)
  return {
    ...{ command, verb: command, done, states },
    isForDead: states.includes('dead'),
    endsRuns: change.kind === 'cancel',
    act: (store, task, say) => store.change(task, change, say),
    ...own,
  }
}

const changing =
  (...row: Parameters<typeof actionOf>) =>
  (paths: readonly string[], options: ChangeOptions, context: CommandContext): Promise<number> =>
    changeTasks(paths, options, actionOf(...row), context)

export const rm = changing('rm', ACTIONS.remove, { verb: 'remove', states: ALIVE })
export const hold = changing('hold', ACTIONS.hold, { states: [...ACTIONS.hold.states, 'running'] })
export const release = changing('release', ACTIONS.release)
export const kick = changing('kick', ACTIONS.kick)
export const cancel = changing('cancel', ACTIONS.cancel, { states: ALIVE })

export function requeue(
  paths: readonly string[],
  options: ChangeOptions & { readonly keepAttempts?: boolean },
  context: CommandContext,
): Promise<number> {
  const args = options.keepAttempts === true ? { keepAttempts: 'yes' } : {}
  return changeTasks(paths, options, actionOf('requeue', ACTIONS.requeue, {}, args), context)
}

/** The number of tasks that are moved at the same time, so that they share round trips and syncs. */
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
      const owner = ownerOf(spool) // not null: this process is still root, so the tasks are root's, but the target is not
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
 * Returns the spool that tasks are moved to. Refuses a directory that is hardly meant as a spool.
 *
 * @param mayMake `--create`: the target is a spool from now on, even if it is missing or does not look like one
 * @returns its path, or its name on Redis
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

/** The most entries of a directory that are looked at. */
const MOST_LOOKED_AT = 1000

/** Returns the evidence that no daemon, and no program that stores tasks, has used a directory; undefined if there is none. */
function foreignIn(directory: string): string | undefined {
  const listing = opendirSync(directory)
  try {
    const locks = readLocks()
    let foreign: string | undefined
    for (let left = MOST_LOOKED_AT; left > 0; left--) {
      const entry = listing.readSync()
      if (entry === null) break
      const { name } = entry
      if (name.startsWith(STATE_DIRECTORY)) return undefined // the state directory, or the unfinished file of one of our writers
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
