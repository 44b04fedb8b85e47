import fs from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import type { Stream } from '../../base/events/event-map.js'
import { onDemand } from '../../base/on-demand.js'

/** Takes printed text. @param sent called when the text has been handed to the channel */
export type Print = (stream: Stream, text: string, sent: () => void) => void

/** A writer has to wait for 'drain' while more characters than this have not been handed to the channel. */
const HIGH_WATER_CHARS = 1024 * 1024
const NAMES = { 1: 'stdout', 2: 'stderr' } as const

const loadTty = onDemand<typeof import('node:tty')>('node:tty')

/**
 * Captures what the code in this process writes to standard output and standard error, so that the log can show it in
 * order with the tasks: `console`, `process.stdout`, and writes to the descriptors through `fs`, as fast loggers do.
 * Native code and child processes write to the descriptors directly, and are not captured here.
 */
export function takeOutput(print: Print): void {
  for (const name of Object.values(NAMES)) takeStream(name, print)
  takeDescriptors(print)
  if (fs.fstatSync(1).isCharacterDevice() || fs.fstatSync(2).isCharacterDevice()) denyTerminal()
}

/** Lets code that asks whether its output is a terminal, so that it may use colors, learn that it is not: the log escapes colors. */
function denyTerminal(): void {
  const tty = loadTty()
  const { isatty } = tty
  tty.isatty = fd => fd !== 1 && fd !== 2 && isatty(fd)
}

/** Diverts a stream on first access, so that a process that prints nothing does not pay for it. */
function takeStream(name: 'stdout' | 'stderr', print: Print): void {
  const original = Object.getOwnPropertyDescriptor(process, name)
  let stream: NodeJS.WriteStream | undefined
  Object.defineProperty(process, name, {
    configurable: true,
    enumerable: true,
    get() {
      stream ??= divert(original?.get?.call(process), name, print)
      return stream
    },
  })
}

type Written = () => void

function divert(stream: NodeJS.WriteStream, name: Stream, print: Print): NodeJS.WriteStream {
  const decoder = new StringDecoder('utf8')
  let waiting = 0
  const write = (
    chunk: string | Uint8Array,
    encoding?: BufferEncoding | Written,
    written?: Written,
  ): boolean => {
    const done = typeof encoding === 'function' ? encoding : written
    const bytes =
      typeof chunk === 'string' && typeof encoding === 'string' ? Buffer.from(chunk, encoding) : chunk
    const text = typeof bytes === 'string' ? bytes : decoder.write(Buffer.from(bytes))
    waiting += text.length
    print(name, text, () => {
      const wasHigh = waiting > HIGH_WATER_CHARS
      waiting -= text.length
      if (wasHigh && waiting <= HIGH_WATER_CHARS) stream.emit('drain')
    })
    if (done !== undefined) process.nextTick(done)
    return waiting <= HIGH_WATER_CHARS
  }
  return Object.assign(stream, { write, isTTY: false })
}

/** Diverts `fs.write` and `fs.writeSync`, except for code that took a reference to them earlier, or imports them by name. */
function takeDescriptors(print: Print): void {
  const { write, writeSync } = fs
  const take = (fd: number, data: unknown, rest: readonly unknown[]): number | undefined => {
    if (fd !== 1 && fd !== 2) return undefined
    const bytes = bytesOf(data, rest)
    print(NAMES[fd], bytes.toString(), () => {})
    return bytes.length
  }
  const patched = {
    writeSync: (fd: number, data: unknown, ...rest: unknown[]) =>
      take(fd, data, rest) ?? Reflect.apply(writeSync, fs, [fd, data, ...rest]),
    write: (fd: number, data: unknown, ...rest: unknown[]) => {
      const count = take(fd, data, rest)
      if (count === undefined) return Reflect.apply(write, fs, [fd, data, ...rest])
      const written = rest.at(-1)
      if (typeof written === 'function') process.nextTick(() => written(null, count, data))
    },
  }
  Object.defineProperties(patched.write, Object.getOwnPropertyDescriptors(write)) // for util.promisify
  Object.assign(fs, patched)
}

/** Returns the bytes to write, for all signatures: (text, position, encoding), (bytes, offset, length), (bytes, { … }). */
function bytesOf(data: unknown, [first, second]: readonly unknown[]): Buffer {
  if (!ArrayBuffer.isView(data))
    return Buffer.from(String(data), typeof second === 'string' ? (second as BufferEncoding) : 'utf8')
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  const asked =
    typeof first === 'object' && first !== null ? (first as { offset?: number; length?: number }) : {}
  const offset = typeof first === 'number' ? first : (asked.offset ?? 0)
  const length = typeof second === 'number' ? second : (asked.length ?? bytes.length - offset)
  return bytes.subarray(offset, offset + length)
}
