import { basename } from 'node:path'
import { type Ref, toByteString } from '../../base/task/ref.js'
import { openTaskStore } from '../../engines/open-engine.js'
import { deadNameOf } from '../../engines/spool/dead-letters.js'
import { isTaskRef } from '../../engines/spool/names.js'
import { holdDirectoryOf } from '../../engines/spool/priority-directory.js'
import type { TaskStore } from '../../engines/task-store.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'

/**
 * This module alone knows which spool and which task a URL means. The spool must be one that the daemon runs. In a directory, the
 * task must have a name that a task can have, and no symbolic link may lead to it.
 */

/** A longer text in a URL cannot stand for a task. */
const MAX_URL_CHARS = 1000
const MAX_NAME_BYTES = 255

/** A spool that the dashboard shows. */
export interface SpoolPlace {
  /** The name of the spool in URLs. */
  readonly id: string
  /** The real path of the spool, or its name on Redis. */
  readonly directory: string
  /** True if the spool is on Redis: its tasks are in no directory. */
  readonly isOnRedis: boolean
  /** Opens the store of the spool, to look at tasks or to act on them. `asksDaemons`: they say which tasks are parked. */
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
      return {
        id: count === 1 ? name : `${name}~${count}`,
        directory,
        isOnRedis: isRedisAddress(directory),
        open: options => openTaskStore(directory, options),
      }
    })
  }

  find(id: string): SpoolPlace | undefined {
    return this.all.find(each => each.id === id)
  }
}

/** Returns the text for a task in URLs: the bytes of its ref, which need not be UTF-8, as base64url. */
export function urlTextOf(ref: Ref): string {
  return Buffer.from(ref, 'latin1').toString('base64url')
}

/** Returns the ref that a text in a URL stands for; undefined if it cannot be a task or dead letter of this spool. */
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
    return undefined // the directory is gone, or is a symbolic link
  }
}
