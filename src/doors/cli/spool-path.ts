import { realpathSync } from 'node:fs'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { toByteString } from '../../base/task/ref.js'
import { redisPath } from './redis-paths.js'

/** Of a spool, or its name on Redis, as a byte string. @throws SpooldError SPOOL_UNUSABLE */
export function realPath(directory: string): string {
  const onRedis = redisPath(directory)
  if (onRedis !== undefined) return toByteString(onRedis.spool)
  try {
    return toByteString(realpathSync(directory))
  } catch (error) {
    throw unlisted(directory, error)
  }
}

export function unlisted(directory: string, error: unknown): SpooldError {
  return new SpooldError('SPOOL_UNUSABLE', whyUnlisted(directory, error), { cause: error })
}

function whyUnlisted(directory: string, error: unknown): string {
  switch (errnoOf(error)) {
    case 'ENOENT':
      return `${directory} does not exist; name a spool directory`
    case 'ENOTDIR':
      return `${directory} is not a directory; name a spool directory, or use spoold show for a file`
    default:
      return `${directory} cannot be listed by uid ${process.geteuid?.()}: ${messageOf(error)}`
  }
}
