import { basename } from 'node:path'
import { type Ref, toByteString } from '../../base/task/ref.js'
import { findParked } from '../../engines/control/parked-tasks.js'
import { openTaskStore } from '../../engines/open-engine.js'
import { SpoolView, type TaskView } from '../../engines/spool/admin/task-view.js'
import { deadNameOf } from '../../engines/spool/dead-letters.js'
import { isTaskRef } from '../../engines/spool/names.js'
import { holdDirectoryOf } from '../../engines/spool/priority-directory.js'
import type { TaskStore } from '../../engines/task-store.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'

/**
 * The only module that knows what a URL means: which spool, and which file in it. A spool is one of those that the daemon
 * runs, and a task has a name that a task can have, in a directory that is no link.
 */

/** Longer names, in the form of URLs, are of no task. */
const MAX_URL_CHARS = 1000
const MAX_NAME_BYTES = 255

/** A spool that the dashboard shows. */
export interface SpoolPlace {
  /** What URLs call it. */
  readonly id: string
  /** Its real path, or its name on Redis. */
  readonly directory: string
  /** Its tasks are in no directory. */
  readonly isOnRedis: boolean
  /** A view of the directory as it is now; its daemons say what they keep back. */
  view(): Promise<SpoolView>
  /** Looks at tasks as they are now; undefined: it is gone. */
  look(): Promise<(ref: Ref) => TaskView | undefined | Promise<TaskView | undefined>>
  /** To list it, or to act in it. */
  open(options?: { readonly asksDaemons: boolean }): Promise<TaskStore>
}

export class Spools {
  readonly all: readonly SpoolPlace[]

  /** @param directories real paths, and names on Redis */
  constructor(directories: readonly string[]) {
    const used = new Map<string, number>()
    this.all = directories.map(directory => {
      const name = basename(directory).replace(/[^A-Za-z0-9._-]/g, '-')
      const count = (used.get(name) ?? 0) + 1
      used.set(name, count)
      return placeOf(count === 1 ? name : `${name}~${count}`, directory)
    })
  }

  find(id: string): SpoolPlace | undefined {
    return this.all.find(each => each.id === id)
  }
}

function placeOf(id: string, directory: string): SpoolPlace {
  const isOnRedis = isRedisAddress(directory)
  const open: SpoolPlace['open'] = options => openTaskStore(directory, options)
  const view = async () => {
    const spool = toByteString(directory)
    const parked = await findParked(spool)
    return new SpoolView(spool, (ref, vars) => parked.whyOf(ref, vars))
  }
  return {
    ...{ id, directory, isOnRedis, view, open },
    async look() {
      const at = await (isOnRedis ? open() : view())
      return ref => at.view(ref)
    },
  }
}

/** What URLs call a task: its bytes, whatever they are. */
export function urlTextOf(ref: Ref): string {
  return Buffer.from(ref, 'latin1').toString('base64url')
}

/** @returns undefined for what cannot be a task or dead letter of this spool */
export function refIn({ directory, isOnRedis }: SpoolPlace, urlText: string): Ref | undefined {
  if (urlText.length > MAX_URL_CHARS) return undefined
  const ref = Buffer.from(urlText, 'base64url').toString('latin1')
  if (urlTextOf(ref) !== urlText) return undefined
  if (isOnRedis) return ref.length > 0 && ref.length <= MAX_NAME_BYTES ? ref : undefined
  if (!isTaskRef(deadNameOf(ref) ?? ref)) return undefined
  try {
    holdDirectoryOf(toByteString(directory), ref).release()
    return ref
  } catch {
    return undefined // it is gone, or a link
  }
}
