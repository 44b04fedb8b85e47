import { statfs } from 'node:fs/promises'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import type { CommandContext } from './context.js'

/** A disk that takes longer than this is told of. */
const SLOW_DISK_MS = 5000

/**
 * Resolves once the disks of these paths have answered, and says on which it waits. It asks them in threads: a command asks its
 * disk in this thread, where it could neither say so nor hear Ctrl-C.
 */
export async function whenAnswered(
  paths: readonly string[],
  { output }: Pick<CommandContext, 'output'>,
): Promise<void> {
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
