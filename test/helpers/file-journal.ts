import fs from 'node:fs'
import { dirname } from 'node:path'
import { CHANGING_CALLS, type FsCall, hookFs } from './fs-hooks.js'

const { closeSync, constants, existsSync, fstatSync, futimesSync, readSync, writeSync } = fs
const { linkSync, mkdirSync, openSync, readlinkSync, renameSync, symlinkSync, unlinkSync, writeFileSync } = fs

/** An operation that can be replayed in another directory; `file` is the number of an open file. */
type Act =
  | { readonly do: 'open'; readonly file: number; readonly path: string; readonly flags: number }
  | { readonly do: 'write'; readonly file: number; readonly bytes: Buffer; readonly position: number }
  | { readonly do: 'read'; readonly file: number }
  | { readonly do: 'times'; readonly file: number; readonly atime: number; readonly mtime: number }
  | { readonly do: 'create' | 'unlink' | 'mkdir'; readonly path: string }
  | { readonly do: 'fill'; readonly path: string; readonly text: string }
  | { readonly do: 'rename' | 'link' | 'symlink'; readonly path: string; readonly from: string }
  | { readonly do: 'mark' }

/** A recorded step. */
export type Step = Act & {
  /** The inode, or path of a directory, whose sync makes the step durable. null: nothing to lose. */
  readonly needs: number | string | null
  /** The number of recorded steps after which this one is on disk. */
  safeAfter: number
}

/** Records the operations on files below `base`, until it is stopped. */
export class FileJournal {
  readonly steps: Step[] = []
  readonly #base: string
  readonly #stop: () => void
  /** Keyed by descriptor: the file's number, its inode, and the path by which it was opened. */
  readonly #open = new Map<number, { file: number; inode: number; path: string }>()
  #files = 0

  constructor(base: string) {
    this.#base = base
    this.#stop = hookFs(CHANGING_CALLS, (name, args, proceed) => {
      const result = proceed()
      this.#note(name, args, result)
      return result
    })
  }

  stop(): void {
    this.#stop()
  }

  /** Records that the handler is called at this point. */
  mark(): void {
    this.#add({ do: 'mark' }, null)
  }

  #add(act: Act, needs: number | string | null): void {
    this.steps.push({ ...act, needs, safeAfter: Number.POSITIVE_INFINITY })
  }

  /** Marks all steps covered by a sync of this inode or directory as durable from here on. */
  #sync(of: number | string, isDataOnly: boolean): void {
    for (const step of this.steps)
      if (step.needs === of && !(isDataOnly && step.do === 'times'))
        step.safeAfter = Math.min(step.safeAfter, this.steps.length)
  }

  #note(name: FsCall, args: readonly unknown[], result: unknown): void {
    const [target, second, third] = args.map(plainPath)
    const open = typeof target === 'number' ? this.#open.get(target) : undefined
    const path = typeof target === 'string' && target.startsWith(this.#base) ? target : undefined
    switch (name) {
      case 'openSync': {
        if (path === undefined) return
        const fd = Number(result)
        const flags = typeof second === 'number' ? second : constants.O_RDONLY
        const file = ++this.#files
        this.#open.set(fd, { file, inode: fstatSync(fd).ino, path })
        return this.#add(
          { do: 'open', file, path, flags },
          (flags & constants.O_CREAT) === 0 ? null : dirname(path),
        )
      }
      case 'readSync':
        return open && this.#add({ do: 'read', file: open.file }, open.inode)
      case 'writeSync': {
        if (open === undefined) return
        const [, bytes, offset, length, position] = args as [number, Buffer, number, number, number]
        const copy = Buffer.from(bytes.subarray(offset, offset + length))
        return this.#add({ do: 'write', file: open.file, bytes: copy, position }, open.inode)
      }
      case 'futimesSync':
        return (
          open &&
          this.#add({ do: 'times', file: open.file, atime: Number(second), mtime: Number(third) }, open.inode)
        )
      case 'fdatasyncSync':
        return open && this.#sync(open.inode, true)
      case 'fsyncSync':
        // root holds directories that libc opened: #open does not have them
        if (open === undefined)
          return typeof target === 'number'
            ? this.#sync(readlinkSync(`/proc/self/fd/${target}`), false)
            : undefined
        this.#sync(open.inode, false)
        return this.#sync(open.path, false)
      case 'renameSync':
      case 'linkSync':
        return path === undefined
          ? undefined
          : this.#add(
              { do: name === 'renameSync' ? 'rename' : 'link', from: path, path: String(second) },
              dirname(String(second)),
            )
      case 'symlinkSync':
        return this.#add(
          { do: 'symlink', from: String(target), path: String(second) },
          dirname(String(second)),
        )
      case 'unlinkSync':
      case 'rmSync':
      case 'mkdirSync':
        return path === undefined
          ? undefined
          : this.#add({ do: name === 'mkdirSync' ? 'mkdir' : 'unlink', path }, dirname(path))
      case 'writeFileSync': {
        if (path === undefined) return
        this.#add({ do: 'create', path }, dirname(path))
        const { flush } = (third ?? {}) as { flush?: boolean }
        this.#add({ do: 'fill', path, text: String(second) }, flush === true ? null : path)
        return
      }
    }
  }
}

/** Replaces the anchor of a path by the path of the open directory. The directory itself is `/proc/self/fd/N/.`. */
function plainPath(arg: unknown): unknown {
  const [anchor] = (typeof arg === 'string' && /^\/proc\/self\/fd\/\d+/.exec(arg)) || []
  return anchor === undefined || typeof arg !== 'string'
    ? arg
    : (readlinkSync(anchor) + arg.slice(anchor.length)).replace(/\/\.$/, '')
}

/** Replays steps below another directory. Skips steps that are impossible because an earlier one was left out. */
export function replay(steps: readonly Step[], base: string, target: string): void {
  const files = new Map<number, number>()
  const moved = (path: string) => (path.startsWith(base) ? target + path.slice(base.length) : path)
  for (const step of steps)
    try {
      redo(step, files, moved)
    } catch {}
  for (const fd of files.values()) closeSync(fd)
}

function redo(step: Step, files: Map<number, number>, moved: (path: string) => string): void {
  switch (step.do) {
    case 'open':
      files.set(step.file, openSync(moved(step.path), step.flags, 0o600))
      return
    case 'read':
      readSync(files.get(step.file) ?? -1, Buffer.alloc(1))
      return
    case 'write':
      writeSync(files.get(step.file) ?? -1, step.bytes, 0, step.bytes.length, step.position)
      return
    case 'times':
      return futimesSync(files.get(step.file) ?? -1, step.atime, step.mtime)
    case 'create':
      return writeFileSync(moved(step.path), '')
    case 'fill':
      if (existsSync(moved(step.path))) writeFileSync(moved(step.path), step.text)
      return
    case 'unlink':
      return unlinkSync(moved(step.path))
    case 'mkdir':
      mkdirSync(moved(step.path))
      return
    case 'rename':
      return renameSync(moved(step.from), moved(step.path))
    case 'link':
      return linkSync(moved(step.from), moved(step.path))
    case 'symlink':
      return symlinkSync(step.from, moved(step.path))
    case 'mark':
  }
}
