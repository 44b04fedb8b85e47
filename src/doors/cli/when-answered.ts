import { statfs } from 'node:fs/promises'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import type { Output } from './output.js'

/** A command says so when a disk has not answered for this long. */
const SLOW_DISK_MS = 5000

/**
 * Resolves once the disks of these paths have answered. The question is asked in threads: a command asks its disk in this thread,
 * where it could neither say that it waits nor hear Ctrl-C.
 *
 * @param paths may also have words that are no paths
 */
export async function whenAnswered(paths: readonly string[], output: Output): Promise<void> {
  const waiting = new Set(paths.filter(path => !isRedisAddress(path)))
  const ask = async (path: string) => {
    await statfs(path).catch(() => {}) // whoever uses it is told
    waiting.delete(path)
  }
  const slow = setTimeout(() => {
    const [first] = waiting
    output.complain(`waiting for the disk of ${first}, which has not answered for ${SLOW_DISK_MS / 1000} s`)
  }, SLOW_DISK_MS)
  await Promise.all([...waiting].map(ask))
  clearTimeout(slow)
}
