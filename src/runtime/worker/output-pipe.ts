import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { libc } from '../../system/libc.js'

/**
 * A real pipe for the output of a child. Node's `'pipe'` is a socket, and a socket cannot be opened by name: `echo … >
 * /dev/stderr` fails with ENXIO.
 */
export class OutputPipe {
  readonly reader: Socket
  /** The descriptor for the child's `stdio`. */
  readonly writer: number

  private constructor([reader, writer]: readonly [reader: number, writer: number]) {
    this.reader = new Socket({ fd: reader, readable: true, writable: false })
    this.writer = writer
  }

  /** Opens a pipe. @returns undefined if no pipe can be made: use Node's `'pipe'` instead */
  static open(): OutputPipe | undefined {
    try {
      return new OutputPipe(libc().pipe())
    } catch {
      return undefined // out of descriptors: the spawn fails too, and says why
    }
  }

  /** Closes our copy of the writing end, which the child has inherited. If the spawn failed, closes the reader too. */
  spawned(pid: number | undefined): void {
    closeSync(this.writer)
    if (pid === undefined) this.reader.destroy()
  }
}
