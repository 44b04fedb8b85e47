import { type FSWatcher, watch as watchNatively } from 'node:fs'
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
 * Watches one directory, not its subdirectories. Not with chokidar: it calls lstat for each entry, with the name as
 * text, so its cost grows with the number of entries, and a name that is not UTF-8 makes it fail for good. This takes
 * one synchronous system call.
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

type MonitorOptions = Parameters<typeof import('chokidar').watch>[1]

/**
 * A chokidar watch that falls back to polling after its first error, usually an inotify limit. A second error is
 * reported through `lost`.
 */
function monitor(
  paths: readonly string[],
  options: MonitorOptions,
  attach: (opened: Monitor) => void,
  lost: (error: unknown) => void,
): Watch {
  const open = (usePolling: boolean, failed: (error: unknown) => void): Monitor => {
    const opened = chokidar().watch([...paths], { ...options, ignoreInitial: true, usePolling })
    attach(opened)
    return opened.on('error', failed)
  }
  const poll = (): void => {
    if (current !== first) return // closed, or polling already
    void first.close()
    current = open(true, lost)
  }
  const first = open(false, poll)
  let current: Monitor | undefined = first
  return {
    close() {
      void current?.close()
      current = undefined
    },
  }
}

/** One save raises several events. */
const TOGETHER_MS = 50

/**
 * Calls back when a file, or any entry of a directory, changes, as uWSGI's file monitors do (core/event.c,
 * event_queue_add_file_monitor). Unlike uWSGI's, the watch survives removal and re-creation.
 */
export function watchEntry(path: string, changed: () => void, lost: (error: unknown) => void): Watch {
  let timer: NodeJS.Timeout | undefined
  const hear = () => {
    timer ??= setTimeout(() => {
      timer = undefined
      changed()
    }, TOGETHER_MS)
  }
  const watch = monitor(
    [path],
    { depth: 0 },
    // `raw`: also changes of mode or owner
    opened => opened.on('all', hear).on('raw', hear),
    lost,
  )
  return {
    close() {
      clearTimeout(timer)
      watch.close()
    },
  }
}

/**
 * Calls back when one of the files is touched in the sense of uWSGI's touch-* options: written, created or removed
 * (core/master_checks.c, uwsgi_check_touches).
 */
export function watchTouches(files: readonly string[], touched: (file: string) => void): Watch {
  if (files.length === 0) return { close() {} }
  const attach = (opened: Monitor) => {
    for (const event of ['add', 'change', 'unlink'] as const) opened.on(event, file => touched(file))
  }
  return monitor(files, {}, attach, () => {})
}
