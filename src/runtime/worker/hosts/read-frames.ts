import type { Readable } from 'node:stream'

/** Reads the frames from a pipe of a host, up to the first byte that cannot be from a host. */
export function readFrames<Frame>(
  pipe: Readable,
  decoder: { push(chunk: Buffer): Iterable<Frame> },
  hear: (frame: Frame) => void,
  broken: (error: unknown) => void,
): void {
  pipe.on('error', () => {}) // the host died, which is reported elsewhere
  pipe.on('data', (chunk: Buffer) => {
    try {
      for (const frame of decoder.push(chunk)) hear(frame)
    } catch (error) {
      pipe.removeAllListeners('data')
      broken(error)
    }
  })
}
