import { SpooldError } from '../../base/errors.js'
import { type OpenSpool, openSpool, refused, remove } from '../../spool/admin/change.js'
import { hold as holdFile, kick as kickFile, release as releaseFile } from '../../spool/admin/hold.js'
import { move as moveFile } from '../../spool/admin/move.js'
import { requeue as requeueFile } from '../../spool/admin/requeue.js'
import { ownerOf } from '../acting-owner.js'
import { parseTaskPath } from '../task-paths.js'
import { type ChangeOptions, changeTasks } from './change.js'

type Paths = readonly string[]

/** What is a task and does not run. */
const AT_REST = ['due', 'waiting', 'retrying', 'held'] as const
const ALIVE = [...AT_REST, 'running'] as const

/** `spoold rm PATH…` */
export function rm(paths: Paths, options: ChangeOptions): Promise<number> {
  const action = {
    command: 'rm',
    verb: 'remove',
    done: 'removed',
    states: ALIVE,
    isForDead: true,
    act: remove,
  }
  return changeTasks(paths, options, action)
}

/** `spoold hold PATH…` */
export function hold(paths: Paths, options: ChangeOptions): Promise<number> {
  const states = ['due', 'waiting', 'retrying', 'running'] as const
  return changeTasks(paths, options, {
    command: 'hold',
    verb: 'hold',
    done: 'held',
    states,
    isForDead: false,
    act: holdFile,
  })
}

/** `spoold release PATH…` */
export function release(paths: Paths, options: ChangeOptions): Promise<number> {
  const states = ['held'] as const
  const action = {
    command: 'release',
    verb: 'release',
    done: 'released',
    states,
    isForDead: false,
    act: releaseFile,
  }
  return changeTasks(paths, options, action)
}

/** `spoold kick PATH…` */
export function kick(paths: Paths, options: ChangeOptions): Promise<number> {
  const action = {
    command: 'kick',
    verb: 'kick',
    done: 'kicked',
    states: AT_REST,
    isForDead: false,
    act: kickFile,
  }
  return changeTasks(paths, options, action)
}

/** `spoold requeue PATH…` */
export function requeue(
  paths: Paths,
  options: ChangeOptions & { readonly keepAttempts?: boolean },
): Promise<number> {
  const { keepAttempts = false } = options
  return changeTasks(paths, options, {
    command: 'requeue',
    verb: 'requeue',
    done: 'requeued',
    states: ['dead'],
    isForDead: true,
    act: (at, file) => requeueFile(at, file, { keepAttempts }),
  })
}

/** `spoold move --to DIR PATH…` */
export async function move(paths: Paths, options: ChangeOptions & { readonly to: string }): Promise<number> {
  const { spool, ref, shown: target } = parseTaskPath(options.to)
  if (ref !== undefined) throw new SpooldError('USAGE', `--to: expected a spool directory, got ${options.to}`)
  let to: OpenSpool | undefined
  return changeTasks(paths, options, {
    command: 'move',
    verb: 'move',
    done: 'moved',
    states: ALIVE,
    isForDead: false,
    target,
    async prepare() {
      const owner = ownerOf(spool) // of root's own tasks, and the target is not root's
      if (owner !== null)
        throw new SpooldError(
          'SPOOL_UNUSABLE',
          `${target} belongs to uid ${owner.uid}, in whose directories root does nothing: give the tasks to that user (chown), or their spool`,
        )
      to = await openSpool(spool)
    },
    act: (from, file) => (to === undefined ? refused('there is no target') : moveFile(from, to, file)),
  })
}
