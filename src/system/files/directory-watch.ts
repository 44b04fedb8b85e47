import { type FSWatcher, type Stats, unwatchFile, watchFile, watch as watchNatively } from 'node:fs'
import type { FSWatcher as Monitor } from 'chokidar'
import { onDemand } from '../../base/on-demand.js'
import { type Ref, toFsPath } from '../../base/task/ref.js'

/** The only module that uses chokidar. An event only means "look now"; any event may get lost. */
const chokidar = onDemand<typeof import('chokidar')>('chokidar')

export type WatchChoice = 'auto' | 'poll' | 'off'

export interface Watch {
  close(): void
}

interface WatchListener {
  /** This entry changed; null if only the directory is known. `renamed` also stands for created and removed. */
  event(name: Ref | null, renamed: boolean): void
  /** The watch failed and is closed; the directory may be gone. */
  lost(error: unknown): void
}

/**
 * Watches one directory, not its subdirectories. chokidar is not used here: it calls lstat for each entry, with the name as
 * text, so its cost grows with the number of entries, and a name that is not UTF-8 makes it fail for good. This takes one
 * synchronous system call.
 *
 * @throws EMFILE or ENOSPC if an inotify limit is reached
 */
export function watchDirectory(path: string, listener: WatchListener): Watch {
  const watcher: FSWatcher = watchNatively(
    toFsPath(path),
    { encoding: 'latin1' as BufferEncoding },
    (event, name) => listener.event(name, event === 'rename'),
  )
  watcher.on('error', error => {
    watcher.close()
    listener.lost(error)
  })
  return { close: () => watcher.close() }
}

/** Events that come within this time are reported as one, because one save raises several. */
const TOGETHER_MS = 50

/**
 * Calls back when a file, or any entry of a directory, changes, as uWSGI's file monitors do (core/event.c,
 * event_queue_add_file_monitor). Unlike uWSGI's, the watch survives removal and re-creation. It polls after its first error,
 * usually an inotify limit; a second one is reported through `lost`.
 */
export function watchEntry(path: string, changed: () => void, lost: (error: unknown) => void): Watch {
  let timer: NodeJS.Timeout | undefined
  const hear = () => {
    timer ??= setTimeout(() => {
      timer = undefined
      changed()
    }, TOGETHER_MS)
  }
  const open = (usePolling: boolean, failed: (error: unknown) => void): Monitor =>
    chokidar()
      .watch(path, { depth: 0, ignoreInitial: true, usePolling })
      .on('all', hear)
      .on('raw', hear) // also changes of mode or owner
      .on('error', failed)
  const poll = (): void => {
    if (current !== first) return // closed, or polling already
    void first.close()
    current = open(true, lost)
  }
  const first = open(false, poll)
  let current: Monitor | undefined = first
  return {
    close() {
      clearTimeout(timer)
      void current?.close()
      current = undefined
    },
  }
}

/** How often touched files are looked at, as in uWSGI. */
const TOUCH_LOOK_MS = 1000

/**
 * Calls back when one of the files is touched in the sense of uWSGI's touch-* options: written, created or removed
 * (core/master_checks.c, uwsgi_check_touches). Costs one stat per file and second. A link is followed, wherever it leads.
 */
export function watchTouches(files: readonly string[], touched: (file: string) => void): Watch {
  const watches = files.map(file => {
    const look = (now: Stats, before: Stats) => {
      if (now.mtimeMs !== before.mtimeMs || now.ino !== before.ino) touched(file)
    }
    watchFile(file, { interval: TOUCH_LOOK_MS, persistent: false }, look)
    return () => unwatchFile(file, look)
  })
  return {
    close() {
      for (const end of watches) end()
    },
  }
}
