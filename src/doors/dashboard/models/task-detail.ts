import { errnoOf, messageOf } from '../../../base/errors.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import type { Failure } from '../../../engines/spool/records.js'
import { toPairs } from '../../../formats/protocol/vars.js'
import { type ShownBytes, showBytes } from './shown-bytes.js'
import { type TaskRow, taskRow } from './task-row.js'

/** The content of a packet, for viewers who may read payloads. */
export interface Payload {
  readonly pairs: ReadonlyArray<{ readonly key: string; readonly value: ShownBytes }>
  /** The beginning of the body. Null: there is none, or it cannot be read. */
  readonly body: ShownBytes | null
  /** Why the body cannot be read. Null: it can be read, or there is none. */
  readonly bodyFault: string | null
  readonly bodyBytes: number
}

/** A moment that is known of a task: something happened then, or is to happen. */
export interface Moment {
  readonly atMs: number
  readonly what: string
  readonly detail: string | null
}

export interface TaskDetail {
  readonly row: TaskRow
  /** Why the file is not a packet. Null: it is a packet. */
  readonly fault: string | null
  /** Null: the viewer may not read it, or there is no packet. */
  readonly payload: Payload | null
  /** The oldest first. */
  readonly moments: readonly Moment[]
  /** The whole last error, with its stack. Null: there is none, or the viewer may not read it. */
  readonly lastError: string | null
  /** The machine on which the task was buried, its handlers there, and why. Null: the task is not a dead letter. */
  readonly buried: {
    readonly host: string
    readonly handlers: readonly string[]
    readonly detail: string
  } | null
}

/** The most bytes of a body that are shown. */
const MOST_SHOWN_BYTES = 64 * 1024

interface DetailOptions {
  readonly mayReadPayload: boolean
  readonly nowMs: number
  /** Returns the beginning of the body. @throws why it cannot be read */
  readBody(most: number): Promise<Buffer>
}

export async function taskDetail(task: TaskView, options: DetailOptions): Promise<TaskDetail> {
  const { mayReadPayload, nowMs } = options
  const { record, letter, file } = task
  const row = taskRow(task, mayReadPayload, nowMs)
  return {
    row,
    fault: file.vars === undefined ? (file.detail ?? 'it is no packet') : null,
    payload: mayReadPayload ? await payloadOf(task, options) : null,
    moments: momentsOf(task, row, mayReadPayload),
    lastError: mayReadPayload ? ((letter ?? record)?.lastError ?? null) : null,
    buried:
      letter === undefined
        ? null
        : {
            host: letter.host,
            handlers: letter.handlers,
            detail: (mayReadPayload ? letter.detail : null) ?? letter.reason,
          },
  }
}

async function payloadOf({ file }: TaskView, { readBody }: DetailOptions): Promise<Payload | null> {
  const { vars, bytes, bodyOffset } = file
  if (vars === undefined) return null
  const pairs = toPairs(vars).map(([key, value]) => ({ key: key.toString('utf8'), value: showBytes(value) }))
  const bodyBytes = Math.max(0, bytes - bodyOffset)
  const none = { body: null, bodyFault: null }
  return { pairs, bodyBytes, ...(bodyBytes === 0 ? none : await beginningOf(bodyBytes, readBody)) }
}

async function beginningOf(
  bytes: number,
  readBody: DetailOptions['readBody'],
): Promise<Pick<Payload, 'body' | 'bodyFault'>> {
  try {
    const wanted = Math.min(bytes, MOST_SHOWN_BYTES)
    const body = await readBody(wanted)
    const isOther = body.length !== wanted // hidden values were replaced, which changes the length
    return { body: showBytes(body, isOther ? body.length : bytes), bodyFault: null }
  } catch (error) {
    const isGone = errnoOf(error) === 'ENOENT'
    return {
      body: null,
      bodyFault: isGone ? 'The task has ended.' : `It cannot be read: ${messageOf(error)}`,
    }
  }
}

const FAILED: Readonly<Record<Failure['kind'], string>> = {
  retry: 'asked to be run again',
  error: 'failed with an error',
  crash: 'died with its process',
}

function momentsOf(
  { record, letter, file }: TaskView,
  { arrivedMs, startedAtMs, dueAtMs, state }: TaskRow,
  mayReadPayload: boolean,
): Moment[] {
  const moments: Moment[] = []
  const add = (atMs: number | null | undefined, what: string, detail: string | null = null) => {
    if (atMs !== null && atMs !== undefined) moments.push({ atMs, what, detail })
  }
  add(arrivedMs, 'arrived')
  const { history = [], attempts = 0 } = record ?? { attempts: letter?.attempts ?? 0 }
  if (attempts > history.length) add((letter ?? record)?.firstFailureAt, 'failed for the first time')
  for (const { at, kind, error } of history) add(at, FAILED[kind], mayReadPayload ? error : null)
  if (letter !== undefined && letter.lastFailureAt !== letter.firstFailureAt)
    add(letter.lastFailureAt, 'failed for the last time')
  add(letter?.buriedAt, `buried (${letter?.reason})`)
  add(startedAtMs, file.pid === undefined ? 'began to run' : `began to run in process ${file.pid}`)
  if (state === 'waiting' || state === 'retrying') add(dueAtMs, 'is to run')
  return moments.sort((a, b) => a.atMs - b.atMs)
}
