import { MAX_PACKET_BYTES } from '../../../formats/protocol/header.js'
import type { Vars } from '../../../formats/protocol/vars.js'
import type { Connection } from '../connection.js'
import type { SpoolQueue } from '../queues.js'
import { jsonIn, optionsOf, priorityOf, recordOf, type TaskRecord, varsIn } from '../task-job.js'

/** Where a job is, by the names of BullMQ's sets and lists. */
export type Place = 'wait' | 'prioritized' | 'delayed' | 'active' | 'failed'

/** A job as it was at one moment, without its body. */
export interface Peeked {
  readonly id: string
  readonly queue: SpoolQueue
  readonly place: Place
  /** The job's score in its set. */
  readonly score: number
  /** Epoch ms, by the clock of Redis. */
  readonly storedAtMs: number
  readonly dueAtMs: number
  readonly priority: number | null
  readonly record: TaskRecord
  /** The record as it is stored: nobody has changed it as long as it is the same. */
  readonly recordText: string
  readonly failedReason: string
  readonly finishedAtMs: number | undefined
  readonly startedAtMs: number | undefined
  /** Undefined: the job was not stored as a task. */
  readonly packet: { readonly vars: Vars; readonly bytes: number } | undefined
  readonly bodyBytes: number
}

/** How many jobs are read at a time. */
export const SLICE = 100
const HEAD = '{"packet":"'
const BODY = '","body":"'
/** The longest packet in base64, and what is around it. */
const HEAD_CHARS = Math.ceil(MAX_PACKET_BYTES / 3) * 4 + HEAD.length + BODY.length

/** Reads jobs, in slices. @returns the jobs that exist, in the same order */
export async function peekAll(
  connection: Connection,
  queue: SpoolQueue,
  ids: readonly string[],
): Promise<Peeked[]> {
  const found: Peeked[] = []
  for (let from = 0; from < ids.length; from += SLICE) {
    const slice = ids.slice(from, from + SLICE)
    const keys = ['delayed', 'prioritized', 'failed', 'active', ''].map(type => queue.key(type))
    const replies = await connection.run('peek', ...keys, HEAD_CHARS, ...slice)
    for (const [i, fields] of (replies as ReadonlyArray<readonly string[] | null>).entries())
      if (fields !== null) found.push(peeked(slice[i] ?? '', queue, fields))
  }
  return found
}

function peeked(id: string, queue: SpoolQueue, fields: readonly string[]): Peeked {
  const [place = '', score, timestamp, opts = '', recordText = '', failedReason = '', ...rest] = fields
  const [finishedOn, processedOn, head = '', tail = '', length] = rest
  const { priority, delay = 0 } = optionsOf(jsonIn(opts))
  const record = recordOf({ progress: jsonIn(recordText) })
  const storedAtMs = timeIn(timestamp) ?? 0
  const packet = packetIn(head)
  return {
    ...{ id, queue, record, recordText, failedReason, storedAtMs },
    place: place as Place,
    score: Number(score),
    dueAtMs: record.dueAtMs ?? storedAtMs + delay,
    priority: priorityOf(priority),
    finishedAtMs: timeIn(finishedOn),
    startedAtMs: timeIn(processedOn),
    packet,
    bodyBytes: packet === undefined ? 0 : bodyBytesIn(head, tail, Number(length)),
  }
}

/** @returns undefined: there is no text, or it is no time */
function timeIn(text = ''): number | undefined {
  const ms = Number(text)
  return text === '' || !Number.isFinite(ms) ? undefined : ms
}

function packetIn(head: string): Peeked['packet'] {
  const end = head.indexOf('"', HEAD.length)
  if (!head.startsWith(HEAD) || end < 0) return undefined
  const packet = Buffer.from(head.slice(HEAD.length, end), 'base64')
  const vars = varsIn(packet)
  return vars === undefined ? undefined : { vars, bytes: packet.length }
}

/** Returns the length of the body, which is the rest of the data in base64. */
function bodyBytesIn(head: string, tail: string, length: number): number {
  const end = head.indexOf('"', HEAD.length)
  if (!head.startsWith(BODY, end)) return 0
  const chars = length - end - BODY.length - '"}'.length
  const padding = tail.length - 2 - tail.slice(0, -2).replace(/=+$/, '').length
  return (chars / 4) * 3 - padding
}
