import { createReadStream, openSync, type ReadStream } from 'node:fs'
import { buffer } from 'node:stream/consumers'
import { describe, messageOf, SpooldError } from '../../base/errors.js'
import type { Value } from '../../engines/client/value.js'
import { MAX_BLOCK_BYTES } from '../../formats/protocol/header.js'
import type { Io } from './io.js'

export type Pair = readonly [key: string, value: Value]

/** Parses `key=value`, or `key=@file` for the bytes of a file; `key=@@value` is a value that begins with @. */
export async function pairOf(pair: string): Promise<Pair> {
  const cut = pair.indexOf('=')
  if (cut <= 0) throw new SpooldError('USAGE', `expected key=value, got ${describe(pair)}`)
  const [key, value] = [pair.slice(0, cut), pair.slice(cut + 1)]
  if (!value.startsWith('@')) return [key, value]
  if (value.startsWith('@@')) return [key, value.slice(1)]
  return [key, await readValue(key, value)]
}

/** Stops reading once the value is too large for a packet: the file may be endless. */
async function readValue(key: string, value: string): Promise<Buffer> {
  const file = value.slice(1)
  let bytes: Buffer
  try {
    bytes = await buffer(createReadStream(file, { end: MAX_BLOCK_BYTES }))
  } catch (error) {
    const hint = `; for the text ${JSON.stringify(value)} write ${key}=@${value}`
    throw unreadable(`the value of ${key}, the file`, file, error, hint)
  }
  if (bytes.length <= MAX_BLOCK_BYTES) return bytes
  throw new SpooldError(
    'REQUEST_INVALID',
    `the value of ${JSON.stringify(key)}, the file ${file}, takes more than ${MAX_BLOCK_BYTES} bytes, which is what a packet holds. Put large data in the body, which has no such limit`,
    { details: { key } },
  )
}

/**
 * Opens a file of any size, or standard input, at once: with the rights of the caller, and so that a missing file is
 * reported before anything is created.
 *
 * @param what names the input in messages
 */
export function openInput(what: string, file: string, stdin: Io['stdin']): AsyncIterable<Uint8Array> {
  const input = file === '-' ? stdin() : openFile(what, file)
  return readInput(what, file, input)
}

function openFile(what: string, file: string): ReadStream {
  try {
    return createReadStream(file, { fd: openSync(file, 'r') })
  } catch (error) {
    throw unreadable(what, file, error)
  }
}

async function* readInput(what: string, file: string, input: AsyncIterable<Uint8Array>) {
  try {
    yield* input
  } catch (error) {
    throw unreadable(what, file, error)
  }
}

export async function readInputWhole(what: string, file: string, stdin: Io['stdin']): Promise<Buffer> {
  return buffer(openInput(what, file, stdin))
}

function unreadable(what: string, file: string, cause: unknown, hint = ''): SpooldError {
  return new SpooldError('FILE_UNREADABLE', `${what} ${file} cannot be read: ${messageOf(cause)}${hint}`, {
    cause,
  })
}
