import { SpooldError } from '../../../base/errors.js'
import { toOutcome } from '../../../base/task/answer.js'
import type { Outcome } from '../../../base/task/outcome.js'
import type { Claim, DeadRun, Death } from '../../../engines/claims.js'
import { StreamDecoder } from '../../ipc/frames.js'
import { resultOfState } from '../../ipc/host-page.js'

/**
 * The protocol between a worker and its host. All numbers are little-endian.
 *
 * Descriptor 3, worker to host: messages, each a u32 length and that many bytes. The first message is a list (see
 * `encodeList`) of settings, names and values in turn. The second answers the frame `output`: a list with the token for
 * marks (host-output.ts), or an empty list if output is not captured. Every other message is a sequence of items: u8
 * kind, u16 d, u16 a, u32 b, u32 c, f64 e, then a + b + c bytes.
 * - task: the ref of the task (a bytes), its packet as stored in the file (b), its body (c). d is the number of its run, from 1;
 *   65,535 means that many or more. e is when the task was due, in epoch ms. Tasks are counted from 0 and carry no number.
 * - died: the same for a run whose process has died. The host is only told of it. a is the length of three texts with NULs in
 *   between: the ref, when the task runs again in epoch ms (empty: it does not), and how its process died.
 * - recall: follows all tasks to which the recall flag applies (ipc/host-page.ts).
 * - signal: a is not a length but the number of the uwsgi signal whose function is to be called.
 *
 * Descriptor 3, host to worker: four bytes of magic, so that output of a handler in the stream is noticed, u8 kind, u32 number,
 * u32 length, and that many bytes (see `UpFrame`).
 *
 * Descriptor 4 carries calls of the host and the worker's answers, one at a time: a u32 length and a list. A call is
 * a name and its arguments; an answer is `ok` and its values, or `error` and a message.
 *
 * Descriptor 5 is the page. Nothing is ever written to descriptor 6. The host finds its end of file there when the worker ends.
 */
export const TASKS_FD = 3
export const CALLS_FD = 4
export const LIFELINE_FD = 6

const TASK = 1
const RECALL = 2
const SIGNAL = 3
const DIED = 4
const ITEM_BYTES = 21
const MAX_ATTEMPT = 0xffff
/** The most characters of the cause of a death, which is a text for people. */
const MAX_CAUSE_CHARS = 4000

/** The kinds of frames of a host, and what `number` and `text` are in each. The kinds are sent as their position, from 1. */
const UP_KINDS = [
  'ready', // `text`: the named tasks that the code of the host declared (host.ts); empty: none
  'unloadable', // `text`: why the configured handlers could not be loaded
  'done', // a message has been processed
  // `text`: what the task with this number threw, what is wrong with its return value, or its answer (`fromHost`).
  // It is sent before the result
  'detail',
  'recalled', // tasks from this number on were not started, and will not be started
  'signal-ended', // `text`: what the function of this signal threw, or empty
  'output', // `text`: the path of the pipe for the output of the host, which waits for the answer before it prints
  'ended', // the task with this number has ended, beside others. `text`: its state as on the page, in decimal, and its detail
  'printed', // the task with this number has printed the text, beside others
] as const

export interface UpFrame {
  readonly kind: (typeof UP_KINDS)[number]
  readonly number: number
  readonly text: string
}

const MAGIC = 0x4c5053ff
const UP_HEAD_BYTES = 13
/** The most bytes of a text. A host cuts its texts, so a longer one is not from a host. */
const MAX_TEXT_BYTES = 1024 * 1024
/**
 * The most bytes of a call, which may carry a body. Four ASCII letters read as a larger number, so that output of a handler in
 * the stream is noticed.
 */
const MAX_CALL_BYTES = 0x1fff_ffff

/** The most bytes of a body. It is below the range of the u32, because the size of a message and memory are limited. */
const MAX_BODY_BYTES = 2 ** 31 - 1

/**
 * Reads the body of a task that is about to be sent, so that a failure affects this task only.
 *
 * @throws if the body cannot be sent, because it is too large or cannot be read
 */
export function loadBody(claim: Claim): void {
  if (claim.bodyBytes > MAX_BODY_BYTES)
    throw new SpooldError(
      'PACKET_MALFORMED',
      `its body has ${claim.bodyBytes} bytes, a handler in another language takes ${MAX_BODY_BYTES}`,
    )
  claim.readBody()
}

/** Encodes the tasks as one message. Their bodies have been loaded. */
export function encodeTasks(claims: readonly Claim[]): Buffer {
  let bytes = 4
  for (const { ref, vars, bodyBytes } of claims)
    bytes += ITEM_BYTES + ref.length + vars.text.length + bodyBytes
  const message = Buffer.allocUnsafe(bytes)
  message.writeUInt32LE(bytes - 4, 0)
  let at = 4
  for (const claim of claims) at = appendTask(message, at, claim)
  return message
}

function appendTask(message: Buffer, start: number, claim: Claim): number {
  const { ref, vars, bodyBytes, attempt, dueAtMs } = claim
  const run = Math.min(attempt, MAX_ATTEMPT)
  let at = writeItem(message, start, TASK, run, ref.length, vars.text.length, bodyBytes, dueAtMs)
  at += message.write(ref, at, 'latin1')
  at += message.write(vars.text, at, 'latin1')
  return bodyBytes === 0 ? at : at + (claim.readBody()?.copy(message, at) ?? 0)
}

/** Encodes the death of a run. A body that cannot be read is left out, so that the arguments in it are missing. */
export function encodeDeath(dead: DeadRun, { cause, atMs }: Death): Buffer {
  const { ref, vars, attempt, dueAtMs } = dead
  const text = Buffer.from(`\0${atMs ?? ''}\0${cause.slice(0, MAX_CAUSE_CHARS)}`)
  const head = Buffer.concat([Buffer.from(ref, 'latin1'), text])
  const block = Buffer.from(vars.text, 'latin1')
  const body = bodyOf(dead)
  const item = Buffer.allocUnsafe(4 + ITEM_BYTES)
  item.writeUInt32LE(ITEM_BYTES + head.length + block.length + body.length, 0)
  writeItem(item, 4, DIED, Math.min(attempt, MAX_ATTEMPT), head.length, block.length, body.length, dueAtMs)
  return Buffer.concat([item, head, block, body])
}

function bodyOf(dead: DeadRun): Buffer {
  try {
    return (dead.bodyBytes > MAX_BODY_BYTES ? undefined : dead.readBody()) ?? Buffer.alloc(0)
  } catch {
    return Buffer.alloc(0)
  }
}

export function encodeRecall(): Buffer {
  return single(RECALL, 0)
}

export function encodeSignal(number: number): Buffer {
  return single(SIGNAL, number)
}

function single(kind: number, a: number): Buffer {
  const message = Buffer.allocUnsafe(4 + ITEM_BYTES)
  message.writeUInt32LE(ITEM_BYTES, 0)
  writeItem(message, 4, kind, 0, a, 0, 0)
  return message
}

function writeItem(
  message: Buffer,
  at: number,
  kind: number,
  d: number,
  a: number,
  b: number,
  c: number,
  e = 0,
): number {
  message[at] = kind
  message.writeUInt16LE(d, at + 1)
  message.writeUInt16LE(a, at + 3)
  message.writeUInt32LE(b, at + 5)
  message.writeUInt32LE(c, at + 9)
  message.writeDoubleLE(e, at + 13)
  return at + ITEM_BYTES
}

/** Encodes a list of byte strings as a message. */
export function encodeList(items: ReadonlyArray<string | Uint8Array>): Buffer {
  const parts = items.flatMap(item => {
    const bytes = Buffer.from(item as string)
    return [u32(bytes.length), bytes]
  })
  const bytes = parts.reduce((sum, { length }) => sum + length, 0)
  return Buffer.concat([u32(bytes), ...parts])
}

function u32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32LE(value)
  return bytes
}

/** @throws SpooldError PACKET_MALFORMED */
function unpackList(list: Buffer): Buffer[] {
  const items: Buffer[] = []
  let at = 0
  while (at < list.length) {
    const end = at + 4 > list.length ? Number.POSITIVE_INFINITY : at + 4 + list.readUInt32LE(at)
    if (end > list.length) throw garbage()
    items.push(list.subarray(at + 4, end))
    at = end
  }
  return items
}

export class UpDecoder extends StreamDecoder<UpFrame> {
  protected override partBytes(input: Buffer, at: number): number {
    const left = input.length - at
    if (left >= 4 && input.readUInt32LE(at) !== MAGIC) throw garbage()
    if (left < UP_HEAD_BYTES) return UP_HEAD_BYTES
    const length = input.readUInt32LE(at + 9)
    if (length > MAX_TEXT_BYTES) throw garbage()
    return UP_HEAD_BYTES + length
  }

  protected override decode(frame: Buffer): UpFrame {
    const kind = UP_KINDS[(frame[4] ?? 0) - 1]
    if (kind === undefined) throw garbage()
    const number = frame.readUInt32LE(5)
    return { kind, number, text: frame.toString('utf8', UP_HEAD_BYTES) }
  }
}

/** Decodes calls, each with its name and arguments. */
export class CallDecoder extends StreamDecoder<Buffer[]> {
  protected override partBytes(input: Buffer, at: number): number {
    if (input.length - at < 4) return 4
    const length = input.readUInt32LE(at)
    if (length > MAX_CALL_BYTES) throw garbage()
    return 4 + length
  }

  protected override decode(frame: Buffer): Buffer[] {
    return unpackList(frame.subarray(4))
  }
}

function garbage(): SpooldError {
  return new SpooldError('PACKET_MALFORMED', 'something other than the host wrote to its descriptors 3 and 4')
}

/** The outcome of a task whose host died before the detail of the result arrived. */
export const LOST: Outcome = { kind: 'error', detail: 'what it said is lost' }

/** Returns the outcome that a frame `ended` reports. @param text the text of the frame */
export function fromEnded(text: string): Outcome {
  const result = resultOfState(Number(text.slice(0, 1)))
  if (result === undefined) return LOST
  return typeof result === 'string' ? fromHost(result, text.slice(1)) : result
}

/**
 * Returns the outcome of a run, from what the host said. An `answer` is that of a named task: JSON, with the keys of an answer in
 * JavaScript (base/task/answer.ts). It may also have `error`, the stack of what the task threw. `retry`, if present, is then the
 * delay before the next run, in seconds.
 */
export function fromHost(kind: 'error' | 'answer', text: string): Outcome {
  if (kind === 'error') return { kind, detail: text }
  const answer: unknown = JSON.parse(text)
  if (typeof answer !== 'object' || answer === null || !('error' in answer)) return toOutcome(answer)
  const failed = { kind: 'error', detail: String(answer.error) } as const
  return 'retry' in answer && typeof answer.retry === 'number'
    ? { ...failed, delayMs: answer.retry * 1000 }
    : failed
}
