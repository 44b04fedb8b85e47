import type { Socket } from 'node:net'

/** Smaller than most requests: of those in a piece, all but the first are for nothing. */
const PIECE_BYTES = 512

/**
 * Hands what arrives to an HTTP server in small pieces. Node parses whatever it has read at once, up to 64 KiB, and makes objects for
 * each of the thousands of requests in it, even after the first of them had the socket destroyed. To be called right after
 * the server took the socket; a listener of ours for `data` also makes Node read in JavaScript, instead of past us.
 */
export function hearInPieces(socket: Socket): void {
  const listeners = socket.listeners('data')
  socket.removeAllListeners('data')
  socket.on('data', (chunk: Buffer) => {
    for (let at = 0; at < chunk.length && !socket.destroyed; at += PIECE_BYTES) {
      const piece = chunk.subarray(at, at + PIECE_BYTES)
      for (const hear of listeners) hear.call(socket, piece)
    }
  })
}
