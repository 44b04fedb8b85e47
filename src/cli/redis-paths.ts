import { realpathSync } from 'node:fs'
import { isRedisAddress, nameOfRedis } from '../protocol/redis-address.js'
import type { Ref } from '../task/ref.js'

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
    const cut = path.lastIndexOf('/')
    const spool = cut < 0 ? undefined : nameIfAny(path.slice(0, cut))
    if (spool === undefined) throw error
    return { shown: spool, spool, ref: path.slice(cut + 1) } // the name of a task is behind it
  }
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
