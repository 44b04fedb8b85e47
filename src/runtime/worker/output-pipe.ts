import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** FIFOs per call of mkfifo. */
const BATCH = 8
/** Missing from Node's constants: opens a descriptor that refers to a file without opening the file itself. */
const O_PATH = 0o10000000

/** Unused, already unlinked FIFOs, as descriptors. */
const free: number[] = []
let canMake = true

/**
 * A real pipe for the output of a child. Node's `'pipe'` is a socket, and a socket cannot be opened by name: `echo … >
 * /dev/stderr` fails with ENXIO. Node has no pipe(2), but it can open FIFOs.
 */
export class OutputPipe {
  readonly reader: Socket
  /** For the child's `stdio`. */
  readonly writer: number

  /** @param fifo reused if its reader reaches the end of the stream, else closed */
  private constructor(fifo: number, fd: number, writer: number) {
    this.writer = writer
    this.reader = new Socket({ fd, readable: true, writable: false })
    let hasEnded = false
    this.reader.once('end', () => {
      hasEnded = true
    })
    // without an end, some process can still write to it, so it must not be reused for the next child
    this.reader.once('close', () => (hasEnded ? free.push(fifo) : closeSync(fifo)))
  }

  /** @returns undefined if no FIFO can be made or opened: use Node's `'pipe'` instead */
  static open(): OutputPipe | undefined {
    if (free.length === 0) makeFifos()
    const fifo = free.pop()
    if (fifo === undefined) return undefined
    const path = `/proc/self/fd/${fifo}`
    const opened: number[] = []
    try {
      const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
      opened.push(fd)
      return new OutputPipe(fifo, fd, openSync(path, constants.O_WRONLY))
    } catch {
      for (const fd of [fifo, ...opened]) closeSync(fd)
      return undefined // out of descriptors: the spawn fails too, and says why
    }
  }

  /** Closes our copy of the writing end, which the child has inherited. If the spawn failed, closes the reader too. */
  spawned(pid: number | undefined): void {
    closeSync(this.writer)
    if (pid === undefined) this.reader.destroy()
  }
}

function makeFifos(): void {
  if (!canMake) return
  try {
    const directory = mkdtempSync(join(tmpdir(), 'spoold-'))
    try {
      const paths = Array.from({ length: BATCH }, (_, i) => join(directory, String(i)))
      execFileSync('mkfifo', ['-m', '600', ...paths], { stdio: 'ignore' })
      for (const path of paths) free.push(openSync(path, O_PATH))
    } finally {
      rmSync(directory, { recursive: true })
    }
  } catch {
    canMake = free.length > 0 // do not try again for each child
  }
}
