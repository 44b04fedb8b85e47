import { SpooldError } from '../base/errors.js'
import type { Request } from '../base/task/request.js'

/**
 * Returns the whole body, in memory; undefined if there is none.
 *
 * @throws SpooldError REQUEST_INVALID if the body is larger than `mostBytes`; and what the body throws
 */
export async function wholeBody(
  { body }: Request,
  mostBytes = Number.POSITIVE_INFINITY,
): Promise<Buffer | undefined> {
  if (body === undefined) return undefined
  if (Buffer.isBuffer(body)) {
    if (body.length > mostBytes) throw tooLarge(body.length, mostBytes)
    return body
  }
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body) {
    bytes += piece.length
    if (bytes > mostBytes) throw tooLarge(bytes, mostBytes)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

function tooLarge(bytes: number, mostBytes: number): SpooldError {
  return new SpooldError(
    'REQUEST_INVALID',
    `body: at most ${mostBytes} bytes beside this dictionary fit into this spool, got ${bytes} or more`,
    { details: { key: 'body', bytes, max: mostBytes } },
  )
}
