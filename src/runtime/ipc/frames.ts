import { SpooldError } from '../../base/errors.js'
import { hasFields } from '../../base/json-guard.js'
import type { MasterMessage, WorkerMessage } from './messages.js'

/**
 * A master and a worker send each other frames on one socket pair, in order, little endian. Threads and workers in the same
 * process post the same frames.
 *
 *   frame   u32 token · u32 length of the message · the message, JSON
 *
 * The token is drawn for each worker, which learns it from the first frame. If code of users, which does not know the token,
 * writes to the descriptor or reads from it, the next bytes are not a frame. That costs this worker alone.
 */
const TOKEN_BYTES = 4
const HEAD_BYTES = 8
/** The longest message, in bytes. The arguments of a named task may have 1 MiB, which can take six times as much in JSON. */
const MAX_BYTES = 16 * 1024 * 1024
/** This many characters fit into a frame, whatever they are. */
const PART_CHARS = 2 * 1024 * 1024

/** Returns a token that is not 0, which is what an empty file or a cleared buffer has, and that is not text. */
export function drawToken(): number {
  return (0x80_00_00_00 + Math.floor(Math.random() * 0x80_00_00_00)) >>> 0
}

export function frameOf(token: number, message: MasterMessage | WorkerMessage): Buffer {
  const text = JSON.stringify(message)
  const bytes = Buffer.byteLength(text)
  const frame = Buffer.allocUnsafe(HEAD_BYTES + bytes)
  frame.writeUInt32LE(token, 0)
  frame.writeUInt32LE(bytes, 4)
  frame.write(text, HEAD_BYTES)
  return frame
}

/**
 * Checks that the other end accepts the message.
 *
 * @param what a name of the message, for people
 * @throws SpooldError REQUEST_INVALID if it is too long
 */
export function checkSendable(what: string, message: MasterMessage | WorkerMessage): void {
  const bytes = Buffer.byteLength(JSON.stringify(message))
  if (bytes <= MAX_BYTES) return
  throw new SpooldError(
    'REQUEST_INVALID',
    `${what}: expected at most ${MAX_BYTES} bytes as JSON, got ${bytes}; keep what is so large in a file, and pass its name`,
  )
}

/** Cuts a text of code of users, which may have any length, into parts. Returns at least one. @param chars default: for one frame */
export function partsOf(text: string, chars = PART_CHARS): string[] {
  const count = Math.max(1, Math.ceil(text.length / chars))
  return Array.from({ length: count }, (_, i) => text.slice(i * chars, (i + 1) * chars))
}

/** Thrown for bytes that cannot be a frame of the other end. */
export class NoFrame extends Error {}

/** Splits a stream into parts that say how long they are, however the stream is cut into chunks. */
export abstract class StreamDecoder<Part> {
  #chunks: Buffer[] = []
  #bytes = 0
  #needed = 0

  /** Returns the length of the part at `at`, or, while it is unknown, how many bytes of the part are needed to know more. */
  protected abstract partBytes(input: Buffer, at: number): number
  protected abstract decode(part: Buffer): Part

  /**
   * Yields the parts that are complete with this chunk, in order.
   *
   * @throws at the first part that cannot be from the other end, after all parts before it have been yielded
   */
  *push(chunk: Buffer): Generator<Part> {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes < this.#needed) return
    const input = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks)
    let at = 0
    for (;;) {
      this.#needed = this.partBytes(input, at)
      if (at + this.#needed > input.length || at === input.length) break
      const part = this.decode(input.subarray(at, at + this.#needed))
      at += this.#needed
      yield part
    }
    this.#chunks = at === input.length ? [] : [input.subarray(at)]
    this.#bytes = input.length - at
  }
}

abstract class FrameDecoder<Message> extends StreamDecoder<Message> {
  #token: number | undefined

  /** @param token undefined: the token of the first frame is taken */
  constructor(token?: number) {
    super()
    this.#token = token
  }

  get token(): number {
    return this.#token ?? 0
  }

  protected override partBytes(input: Buffer, at: number): number {
    const left = input.length - at
    if (left < TOKEN_BYTES) return TOKEN_BYTES
    this.#token ??= input.readUInt32LE(at)
    if (input.readUInt32LE(at) !== this.#token) throw new NoFrame('it does not begin as a frame does')
    if (left < HEAD_BYTES) return HEAD_BYTES
    const length = input.readUInt32LE(at + 4)
    if (length < 1 || length > MAX_BYTES) throw new NoFrame(`it announces ${length} bytes`)
    return HEAD_BYTES + length
  }
}

/** Decodes what a worker reads. */
export class MasterDecoder extends FrameDecoder<MasterMessage> {
  protected override decode(frame: Buffer): MasterMessage {
    return JSON.parse(frame.toString('utf8', HEAD_BYTES))
  }
}

/** Decodes what a master reads. */
export class WorkerDecoder extends FrameDecoder<WorkerMessage> {
  protected override decode(frame: Buffer): WorkerMessage {
    const message = parse(frame)
    if (!isMessage(message)) throw new NoFrame('it is no message of a worker')
    return message
  }
}

function parse(frame: Buffer): unknown {
  try {
    return JSON.parse(frame.toString('utf8', HEAD_BYTES))
  } catch {
    return undefined
  }
}

type Fields = Parameters<typeof hasFields>[1]
type Type = WorkerMessage['type']

/** The fields of each message without which the master would fail. */
const MESSAGES: Readonly<Record<Type, Fields>> = {
  loading: { name: 'text' },
  ready: { news: 'objects', concurrency: 'count' },
  unloadable: { error: 'text' },
  reports: { done: 'list', packed: 'list', started: 'list' },
  claimed: { claims: 'list' },
  'run-began': { number: 'count', task: 'object' },
  'run-died': { task: 'object', end: 'object' },
  'run-ended': { number: 'count', task: 'object', end: 'object' },
  'signal-news': { news: 'object' },
  'signal-started': { number: 'count' },
  'signal-ended': { number: 'count' },
  'signal-returned': { number: 'count' },
  recycling: { because: 'object' },
  faulted: { error: 'text' },
  unfit: { error: 'text' },
  cancelling: { number: 'count' },
  recalled: {},
  log: { name: 'text', message: 'text' },
  output: { stream: 'text', text: 'text' },
  'host-page': { fd: 'count' },
  'host-died': { detail: 'text' },
  'host-revived': {},
  ask: { id: 'count', name: 'text', values: 'texts' },
  deadline: { afterMs: 'time' },
  'child-started': { pid: 'count' },
  'child-ended': { pid: 'count' },
  stored: { tasks: 'objects' },
  drained: {},
  'done-aside': { id: 'count' },
}

function isMessage(value: unknown): value is WorkerMessage {
  if (!hasFields(value, { type: 'text' }, {})) return false
  const { type } = value as { readonly type: Type }
  return Object.hasOwn(MESSAGES, type) && hasFields(value, MESSAGES[type], {})
}
