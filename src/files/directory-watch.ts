import { type FSWatcher, watch as watchNatively } from 'node:fs'
import type { FSWatcher as Monitor } from 'chokidar'
import { onDemand } from '../base/on-demand.js'
import { type Ref, toFsPath } from '../task/ref.js'

/** The only file that knows chokidar. Events say "look now", never more: every one of them may be lost. */
const chokidar = onDemand<typeof import('chokidar')>('chokidar')

export type WatchChoice = 'auto' | 'poll' | 'off'

export interface Watch {
  close(): void
}

interface WatchListener {
  /** Something happened to this entry; null when only the directory is known. `renamed` also means made and removed. */
  event(name: Ref | null, renamed: boolean): void
  /** The watch is dead, and closed: the directory is gone, … */
  lost(error: unknown): void
}

/**
 * Watches one directory, not what lies below it. Not by chokidar, which calls lstat for each entry by its name as text:
 * it would cost more with each entry, and fail for good at a name that is not UTF-8. One system call, without waiting.
 *
 * @throws EMFILE, ENOSPC when the limits of inotify are reached
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
 * A chokidar that goes on by polling once it had an error: most often the limits of inotify. A second error is told of.
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

/** One save is several events. */
const TOGETHER_MS = 50

/**
 * Calls back when anything happens to a file, or to the entries of a directory, as uWSGI's file monitors do
 * (core/event.c, event_queue_add_file_monitor). Unlike there, what is removed and made again is still watched.
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
    // `raw`: also what is no change of the content: a mode, an owner
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
 * Calls back when one of the files is touched, as uWSGI's touch-* options mean it: written, made or removed
 * (core/master_checks.c, uwsgi_check_touches).
 */
export function watchTouches(files: readonly string[], touched: (file: string) => void): Watch {
  if (files.length === 0) return { close() {} }
  const attach = (opened: Monitor) => {
    for (const event of ['add', 'change', 'unlink'] as const) opened.on(event, file => touched(file))
  }
  return monitor(files, {}, attach, () => {})
}
