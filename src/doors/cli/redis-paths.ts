import { realpathSync } from 'node:fs'
import type { Ref } from '../../base/task/ref.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'

/** A spool on Redis, or one task in it. */
interface RedisPath {
  /** Without user and password. */
  readonly shown: string
  readonly spool: string
  readonly ref?: Ref
}

/** @returns undefined for what is no address on Redis @throws SpooldError ADDRESS_INVALID */
export function redisPath(path: string): RedisPath | undefined {
  if (!isRedisAddress(path)) return undefined
  try {
    const spool = nameOfRedis(path)
    return { shown: spool, spool }
  } catch (error) {
    for (const [address, ref] of taskAddresses(path)) {
      const spool = nameIfAny(address)
      if (spool !== undefined) return { shown: spool, spool, ref }
    }
    throw error
  }
}

/** The name of a task is behind that of the spool, or behind the whole address, as `enqueue` prints it. */
function taskAddresses(path: string): ReadonlyArray<readonly [address: string, ref: string]> {
  const [, before = '', ref = '', query = ''] = /^([^?]*)\/([^/?]+)(\?.*)?$/.exec(path) ?? []
  const cut = path.lastIndexOf('/')
  return [
    [before + query, ref],
    [path.slice(0, cut), path.slice(cut + 1)],
  ]
}

function nameIfAny(address: string): string | undefined {
  try {
    return nameOfRedis(address)
  } catch {
    return undefined
  }
}

/** The real path of a spool, or its name on Redis. @throws the file system's error, SpooldError ADDRESS_INVALID */
export function spoolAt(directory: string): string {
  return isRedisAddress(directory) ? nameOfRedis(directory) : realpathSync(directory)
}

/** A path as it may be shown: of an address on Redis, this process remembers user and password, and the name is left. */
export function shownPath(path: string): string {
  const found = redisPath(path)
  if (found === undefined) return path
  return found.ref === undefined ? found.spool : `${found.spool}/${found.ref}`
}
