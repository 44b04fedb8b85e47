import { watch as watchNatively } from 'node:fs'
import { opendir, statfs } from 'node:fs/promises'
import { watch as watchWithChokidar } from 'chokidar'
import { type Ref, toByteString, toFsPath } from '../task/ref.js'

/** The only file that knows chokidar. Events say "look now", never more: every one of them may be lost. */

export type WatchChoice = 'auto' | 'poll' | 'off'

export interface Watch {
  close(): void
}

export interface WatchListener {
  /** Something happened to this entry; null when only the directory is known. `renamed` also means made and removed. */
  event(name: Ref | null, renamed: boolean): void
  /** The watch is dead: too many watches, the directory is gone, … */
  lost(error: unknown): void
}

/** chokidar lists the directory again, at most once a second, while events come: past this it costs more than it gives. */
const CHOKIDAR_ENTRIES = 1000
/** How many events may pass before the directory's size is looked at again. */
const EVENTS_A_LOOK = 1000
const POLL_MS = 1000
/** File systems whose changes by other hosts raise no event here: NFS, SMB, SMB2, FUSE, 9p (statfs f_type). */
const WITHOUT_EVENTS = new Set([0x6969, 0x517b, 0xfe534d42, 0x65735546, 0x01021997])

/**
 * Watches one directory, not what lies below it: with chokidar where that is cheap, with a bare `fs.watch` where it is
 * not (chokidar would list the directory at each change), by polling where the file system has no events.
 */
export async function watchDirectory(
  path: string,
  choice: WatchChoice,
  listener: WatchListener,
): Promise<Watch> {
  if (choice === 'off') return { close() {} }
  const fsPath = toFsPath(path)
  const isPolled = choice === 'poll' || WITHOUT_EVENTS.has((await statfs(fsPath)).type)
  if (isPolled) return await doorbell(path, true, listener)
  if (typeof fsPath === 'string' && (await hasFewEntries(fsPath))) return await growingWatch(path, listener)
  return bareWatch(fsPath, listener)
}

/** A doorbell until the directory has outgrown it; then a bare watch takes over, and all that happened is unclear. */
async function growingWatch(path: string, listener: WatchListener): Promise<Watch> {
  let heard = 0
  const outgrow = async (): Promise<void> => {
    if (await hasFewEntries(path)) return
    if (watch !== bell) return // closed, or replaced already
    watch = bareWatch(path, listener)
    bell.close()
    listener.event(null, false)
  }
  const bell: Watch = await doorbell(path, false, {
    event(name, renamed) {
      listener.event(name, renamed)
      if (++heard % EVENTS_A_LOOK === 0) outgrow().catch(error => listener.lost(error))
    },
    lost: error => listener.lost(error),
  })
  let watch: Watch | undefined = bell
  return {
    close() {
      watch?.close()
      watch = undefined
    },
  }
}

async function hasFewEntries(path: string): Promise<boolean> {
  let entries = 0
  for await (const _ of await opendir(path, { bufferSize: CHOKIDAR_ENTRIES }))
    if (++entries > CHOKIDAR_ENTRIES) return false
  return true
}

/** chokidar with every entry ignored: it would otherwise put a watch on each file. `raw` still names what changed. */
async function doorbell(path: string, usePolling: boolean, listener: WatchListener): Promise<Watch> {
  const watcher = watchWithChokidar(path, {
    depth: 0,
    ignoreInitial: true,
    ignored: entry => entry !== path,
    usePolling,
    interval: POLL_MS,
  })
  watcher.on('raw', (event, name) => {
    const isNamed = !usePolling && typeof name === 'string' && !name.includes('\ufffd')
    listener.event(isNamed ? toByteString(name) : null, event === 'rename')
  })
  watcher.on('error', error => listener.lost(error))
  await new Promise<void>(resolve => watcher.once('ready', resolve))
  return { close: () => void watcher.close() }
}

function bareWatch(path: string | Buffer, listener: WatchListener): Watch {
  const watcher = watchNatively(path, { encoding: 'latin1' as BufferEncoding }, (event, name) => {
    listener.event(name, event === 'rename')
  })
  watcher.on('error', error => {
    watcher.close()
    listener.lost(error)
  })
  return { close: () => watcher.close() }
}

/** One save is several events. */
const TOGETHER_MS = 50

/**
 * Calls back when anything happens to a file, or to the entries of a directory, as uWSGI's file monitors do
 * (core/event.c, event_queue_add_file_monitor). Unlike there, what is removed and made again is still watched.
 */
export function watchEntry(path: string, changed: () => void, lost: (error: unknown) => void): Watch {
  const watcher = watchWithChokidar(path, { ignoreInitial: true, depth: 0 })
  let timer: NodeJS.Timeout | undefined
  const hear = () => {
    timer ??= setTimeout(() => {
      timer = undefined
      changed()
    }, TOGETHER_MS)
  }
  watcher.on('all', hear)
  watcher.on('raw', hear) // also what is no change of the content: a mode, an owner
  watcher.on('error', lost)
  return {
    close() {
      clearTimeout(timer)
      void watcher.close()
    },
  }
}

/**
 * Calls back when one of the files is touched, as uWSGI's touch-* options mean it: written, made or removed
 * (core/master_checks.c, uwsgi_check_touches).
 */
export function watchTouches(files: readonly string[], touched: (file: string) => void): Watch {
  if (files.length === 0) return { close() {} }
  const watcher = watchWithChokidar([...files], { ignoreInitial: true, disableGlobbing: true } as object)
  for (const event of ['add', 'change', 'unlink'] as const) watcher.on(event, file => touched(file))
  return { close: () => void watcher.close() }
}
