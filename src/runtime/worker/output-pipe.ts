import { closeSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { libc } from '../../system/libc.js'

const CHUNK_BYTES = 65_536
/** The most chunks that are read at the end, because a process that the child leaves running may write forever. */
const MAX_CHUNKS = 64

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

/**
 * Reads what a child prints, no faster than it is taken. Otherwise it waits in the pipe, and then the child waits.
 *
 * @param stream absent: the spawn failed
 * @param take takes a text, and calls `taken` when there is room for more
 * @returns a function that takes all that the child has printed until now. Call it when the child has ended
 */
export function readOutput(
  stream: Readable | null | undefined,
  take: (text: string, taken: () => void) => void,
): () => void {
  if (stream === null || stream === undefined) return () => {}
  const decoder = new StringDecoder('utf8')
  stream.on('data', (chunk: Buffer) => {
    stream.pause()
    take(decoder.write(chunk), () => stream.resume())
  })
  stream.on('error', () => {})
  return () => {
    while (stream.read() !== null) {} // takes what Node has read while the log was slow, and emits it as 'data'
    const { _handle } = stream as Readable & { readonly _handle?: { readonly fd?: number } | null }
    for (const chunk of rest(_handle?.fd)) take(decoder.write(chunk), () => {})
    take(decoder.end(), () => {})
  }
}

function* rest(fd: number | undefined): Generator<Buffer> {
  for (let i = 0; fd !== undefined && fd >= 0 && i < MAX_CHUNKS; i++) {
    const chunk = Buffer.alloc(CHUNK_BYTES)
    let bytes = 0
    try {
      bytes = readSync(fd, chunk)
    } catch {} // EAGAIN: nothing is left
    if (bytes === 0) return
    yield chunk.subarray(0, bytes)
  }
}
