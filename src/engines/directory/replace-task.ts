import { messageOf } from '../../base/errors.js'
import { displayName, toByteString } from '../../base/task/ref.js'
import { HEADER_BYTES, packetBytesOf } from '../../formats/protocol/header.js'
import { type Changed, type OpenSpool, refused, remove, type TargetFile } from '../spool/admin/change.js'
import { NO_PACKET } from '../spool/admin/hold.js'
import type { TaskView } from '../spool/admin/task-view.js'
import { readBody } from '../spool/spool-file.js'
import type { Change } from '../task-store.js'
import { DirectoryEnqueuer } from './enqueuer.js'

type RequestFor = Extract<Change, { kind: 'replace' }>['request']

/** Stores another task, and then removes this one, which is locked. After a kill in between both are there. */
export function replaceTask(
  at: OpenSpool,
  task: TaskView,
  file: TargetFile,
  requestFor: RequestFor,
): Changed {
  if (file.state === undefined) return NO_PACKET
  const spool = displayName(at.spool)
  const request = requestFor(task, () => bodyOf(file))
  const { path } = new DirectoryEnqueuer(spool).storeSync(request)
  try {
    remove(at, file)
    return { kind: 'done', to: toByteString(path.slice(spool.length + 1)) }
  } catch (error) {
    return refused(
      `the edited task is stored as ${path}, but this one cannot be removed: ${messageOf(error)}`,
    )
  }
}

function bodyOf({ fd, stats }: TargetFile): Buffer {
  const packetBytes = packetBytesOf(readBody(fd, 0, HEADER_BYTES))
  return readBody(fd, packetBytes, stats.size - packetBytes)
}
