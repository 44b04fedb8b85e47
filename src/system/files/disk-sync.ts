import { close, fdatasync, fsync, open } from 'node:fs'
import { promisify } from 'node:util'
import { toFsPath } from '../../base/task/ref.js'

const openFile = promisify(open)
const closeFile = promisify(close)
const syncAll = promisify(fsync)

/** Syncs a file's bytes and size. Files synced at the same time share one commit of the file system's journal. */
export const syncData = promisify(fdatasync)

/** The syncs of one directory: the running one, and the one after it. */
interface Turn {
  running: Promise<void>
  next: Promise<void> | undefined
}

const turns = new Map<string, Turn>()

/**
 * Syncs a directory's entries to disk. Calls during a running sync cannot know whether it covers their entries, so they
 * share the next one.
 */
export function syncDirectory(path: string): Promise<void> {
  const turn = turns.get(path)
  if (turn === undefined) {
    const begun: Turn = { running: Promise.resolve(), next: undefined }
    turns.set(path, begun)
    begun.running = run(path, begun)
    return begun.running
  }
  turn.next ??= turn.running.then(
    () => follow(path, turn),
    () => follow(path, turn),
  )
  return turn.next
}

function follow(path: string, turn: Turn): Promise<void> {
  turn.next = undefined
  turn.running = run(path, turn)
  return turn.running
}

async function run(path: string, turn: Turn): Promise<void> {
  try {
    const fd = await openFile(toFsPath(path), 'r')
    try {
      await syncAll(fd)
    } finally {
      await closeFile(fd)
    }
  } finally {
    if (turn.next === undefined) turns.delete(path)
  }
}
