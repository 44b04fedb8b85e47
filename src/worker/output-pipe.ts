import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** One process makes so many. */
const BATCH = 8
/** Not in Node's constants: a descriptor that stands for the file and opens nothing. */
const O_PATH = 0o10000000

/** Pipes that nobody uses, as descriptors of FIFOs without a name. */
const free: number[] = []
let canMake = true

/**
 * A real pipe for the output of a child. What Node calls a pipe is a socket, and no process can open its own standard error
 * again by name when that is a socket: `echo … > /dev/stderr` fails with ENXIO. Node has no pipe(2), but it can open FIFOs.
 */
export class OutputPipe {
  readonly reader: Socket
  /** For the child's `stdio`. */
  readonly writer: number

  /** @param fifo closed, or free again, when the reader is closed */
  private constructor(fifo: number, fd: number, writer: number) {
    this.writer = writer
    this.reader = new Socket({ fd, readable: true, writable: false })
    let hasEnded = false
    this.reader.once('end', () => {
      hasEnded = true
    })
    // whoever still holds the other end of a pipe that is read no more must not meet the next child in it
    this.reader.once('close', () => (hasEnded ? free.push(fifo) : closeSync(fifo)))
  }

  /** @returns undefined where there is none to be had: Node's `'pipe'` has to do */
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
      return undefined // out of descriptors: the child cannot be started either, and tells why
    }
  }

  /** The child has the other end, or there is no child. */
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
    canMake = free.length > 0 // it is not tried again for each child
  }
}
