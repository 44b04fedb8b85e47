import type { Readable } from 'node:stream'

/** Hears what comes through a pipe of a host, up to the first byte that is none of a host's. */
export function readFrames<Frame>(
  pipe: Readable,
  decoder: { push(chunk: Buffer): Frame[] },
  hear: (frame: Frame) => void,
  broken: (error: unknown) => void,
): void {
  pipe.on('error', () => {}) // it died: that is told elsewhere
  pipe.on('data', (chunk: Buffer) => {
    try {
      for (const frame of decoder.push(chunk)) hear(frame)
    } catch (error) {
      pipe.removeAllListeners('data')
      broken(error)
    }
  })
}
