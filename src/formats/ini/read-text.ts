import { isUtf8 } from 'node:buffer'
import { closeSync, readSync } from 'node:fs'
import { Opener } from '../../system/opener.js'
import { unread } from './setting.js'

/** Far more than a person writes: anything larger is another kind of file, or an endless device. */
const MAX_BYTES = 4 * 1024 * 1024
const CHUNK_BYTES = 64 * 1024
const STDIN = 0
const FILES = new Opener(null)

/**
 * Reads a text file; `-` is standard input, as in uWSGI.
 *
 * @throws Error with a message for people
 */
export function readText(file: string): string {
  const [, scheme] = /^([a-z]+):\/\//.exec(file) ?? []
  if (scheme !== undefined) throw new Error(`expected the name of a file; ${scheme}:// is not supported`)
  const fd = file === '-' ? STDIN : FILES.read(file)
  try {
    return decode(readAll(fd))
  } finally {
    if (fd !== STDIN) closeSync(fd)
  }
}

/**
 * Reads an ini file as `readText` does, but refuses a binary file.
 *
 * @throws Error with a message for people
 */
export function readIniText(file: string): string {
  const text = readText(file)
  if (isBinary(text)) throw new Error('it is not text')
  return text
}

/**
 * True if the text has many control characters. uWSGI ends a line at a zero byte, but a file with many of them is not an ini
 * file.
 */
function isBinary(text: string): boolean {
  return [...text.slice(0, 4096)].filter(each => each < '\t').length > 16
}

/** Decodes line by line. In a line that is not UTF-8, each byte that is not ASCII becomes a character that no text has. */
function decode(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString()
  const lines = bytes.toString('latin1').split('\n')
  return lines.map(line => decodeLine(Buffer.from(line, 'latin1'))).join('\n')
}

function decodeLine(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString()
  return bytes.toString('latin1').replace(/[\x80-\xff]/g, unread)
}

/** Reads all of a file. readFileSync would read /dev/zero until memory is exhausted. */
function readAll(fd: number): Buffer {
  const chunks: Buffer[] = []
  let length = 0
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    const count = readSync(fd, chunk)
    if (count === 0) return Buffer.concat(chunks, length)
    chunks.push(chunk.subarray(0, count))
    length += count
    if (length > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES} bytes`)
  }
}
