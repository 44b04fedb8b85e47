import { fdatasync } from 'node:fs'
import { open } from 'node:fs/promises'
import { promisify } from 'node:util'
import { toFsPath } from '../../base/task/ref.js'

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
  const follow = () => {
    turn.next = undefined
    turn.running = run(path, turn)
    return turn.running
  }
  turn.next ??= turn.running.then(follow, follow)
  return turn.next
}

async function run(path: string, turn: Turn): Promise<void> {
  try {
    const directory = await open(toFsPath(path))
    try {
      await directory.sync()
    } finally {
      await directory.close()
    }
  } finally {
    if (turn.next === undefined) turns.delete(path)
  }
}
