import { SpooldError } from '../../base/errors.js'
import { cancel as cancelFile } from '../../spool/admin/cancel.js'
import { type OpenSpool, openSpool, refused, remove } from '../../spool/admin/change.js'
import { hold as holdFile, kick as kickFile, release as releaseFile } from '../../spool/admin/hold.js'
import { move as moveFile } from '../../spool/admin/move.js'
import { requeue as requeueFile } from '../../spool/admin/requeue.js'
import { ownerOf } from '../acting-owner.js'
import { finishCancel } from '../cancel-running.js'
import type { Action, ChangeOptions } from '../change-report.js'
import type { CommandContext } from '../context.js'
import { parseTaskPath } from '../task-paths.js'
import { changeTasks } from './change.js'

/** The states of living tasks that are not running. */
const AT_REST = ['due', 'waiting', 'retrying', 'held'] as const
const ALIVE = [...AT_REST, 'running'] as const

const changing =
  (action: Action) =>
  (paths: readonly string[], options: ChangeOptions, context: CommandContext): Promise<number> =>
    changeTasks(paths, options, action, context)

export const rm = changing({
  command: 'rm',
  verb: 'remove',
  done: 'removed',
  states: ALIVE,
  isForDead: true,
  act: remove,
})

export const hold = changing({
  command: 'hold',
  verb: 'hold',
  done: 'held',
  states: ['due', 'waiting', 'retrying', 'running'],
  isForDead: false,
  act: holdFile,
})

export const release = changing({
  command: 'release',
  verb: 'release',
  done: 'released',
  states: ['held'],
  isForDead: false,
  act: releaseFile,
})

export const kick = changing({
  command: 'kick',
  verb: 'kick',
  done: 'kicked',
  states: AT_REST,
  isForDead: false,
  act: kickFile,
})

export const cancel = changing({
  command: 'cancel',
  verb: 'cancel',
  done: 'cancelled',
  states: ALIVE,
  isForDead: false,
  act: cancelFile,
  finish: finishCancel,
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
    done: 'requeued',
    states: ['dead'],
    isForDead: true,
    act: (at, file) => requeueFile(at, file, { keepAttempts }),
  }
  return changeTasks(paths, options, action, context)
}

export async function move(
  paths: readonly string[],
  options: ChangeOptions & { readonly to: string },
  context: CommandContext,
): Promise<number> {
  const { spool, ref, shown: target } = parseTaskPath(options.to)
  if (ref !== undefined) throw new SpooldError('USAGE', `--to: expected a spool directory, got ${options.to}`)
  let to: OpenSpool | undefined
  const action: Action = {
    command: 'move',
    verb: 'move',
    done: 'moved',
    states: ALIVE,
    isForDead: false,
    target,
    async prepare() {
      const owner = ownerOf(spool) // still root here, so the tasks are root's, and the target is not
      if (owner !== null)
        throw new SpooldError(
          'SPOOL_UNUSABLE',
          `${target} belongs to uid ${owner.uid}, in whose directories root does nothing: give the tasks to that user (chown), or their spool`,
        )
      to = await openSpool(spool)
    },
    act: (from, file) => (to === undefined ? refused('there is no target') : moveFile(from, to, file)),
  }
  return changeTasks(paths, options, action, context)
}
