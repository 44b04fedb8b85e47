import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../../base/errors.js'
import { hasFields } from '../../base/json-guard.js'
import { CANCEL_RESULTS, type CancelNews, type CancelResult } from '../../base/task/cancel.js'
import { displayName, type Ref } from '../../base/task/ref.js'
import { changedBy, waitsFor } from '../cancelled.js'
import { askDaemon, controlSocketsOf } from '../control/client.js'
import { type Changed, change, type OpenSpool, refused } from '../spool/admin/change.js'
import { cancel } from '../spool/admin/letters.js'
import type { TaskView } from '../spool/admin/task-view.js'
import { commandOf } from '../spool/neighbours.js'

/** How long a daemon may be silent: while it still works on the cancel, it says so every two seconds. */
const ANSWER_MS = 15_000
/** How often a cancel is tried, because the task may end and run again while its daemon is being asked. */
const TRIES = 5
const PAUSE_MS = 50

type Say = (text: string) => void

/** Cancels a task that another process holds: asks the daemons of its spool until one has ended the task or none runs it. */
export async function finishCancel(
  at: OpenSpool,
  task: TaskView,
  changed: Changed,
  say: Say,
): Promise<Changed> {
  let now = changed
  let why: string | undefined
  for (let tries = 0; now.kind === 'running' && tries < TRIES; tries++) {
    const answer = await askAll(at, task.ref, say)
    const ended = answer.result === undefined ? undefined : changedBy(answer.result)
    if (ended !== undefined) return ended
    why = answer.why
    now = await change(at, task.ref, file => cancel(at, file))
    if (now.kind === 'running' && answer.result === undefined) break
    await sleep(PAUSE_MS)
  }
  if (now.kind === 'running') return refused(heldBy(task, why))
  return now.kind === 'gone' ? refused('it is gone: it has run, was removed, or was buried by another') : now
}

interface Answer {
  /** Undefined if no daemon runs the task. */
  readonly result?: CancelResult
  /** Why a daemon could not be asked. */
  readonly why?: string
}

async function askAll(at: OpenSpool, ref: Ref, say: Say): Promise<Answer> {
  const spool = displayName(at.spool)
  let why: string | undefined
  try {
    for (const socket of at.sockets ?? controlSocketsOf(spool)) {
      const answer = await ask(socket, spool, ref, say)
      if (answer.result !== undefined && answer.result.result !== 'elsewhere') return answer
      why = answer.why ?? why
    }
  } catch (error) {
    why = messageOf(error)
  }
  return why === undefined ? {} : { why }
}

async function ask(socket: string, spool: string, task: Ref, say: Say): Promise<Answer> {
  let hasSaid = false
  const event = (news: unknown) => {
    if (hasSaid || !isNews(news) || news.others === 0) return
    hasSaid = true
    say(waitsFor(news))
  }
  try {
    const result = await askDaemon(socket, 'cancel', { spool, task }, { silenceMs: ANSWER_MS, event })
    return isResult(result) ? { result } : { why: 'its daemon answered something else' }
  } catch (error) {
    return /ECONNREFUSED|ENOENT/.test(messageOf(error)) ? {} : { why: messageOf(error) } // its daemon is dead
  }
}

function heldBy({ file: { pid } }: TaskView, why: string | undefined): string {
  const who =
    pid === undefined ? 'another process, perhaps of another host,' : `process ${pid} (${commandOf(pid)})`
  const because = why === undefined ? 'no spoold that can be asked here runs it' : `its daemon: ${why}`
  return `${who} holds it, and cannot be told to end it: ${because}`
}

function isResult(value: unknown): value is CancelResult {
  return (
    hasFields(value, { result: 'text' }, { detail: 'text' }) &&
    CANCEL_RESULTS.includes((value as CancelResult).result)
  )
}

function isNews(value: unknown): value is CancelNews {
  return hasFields(value, { pid: 'count', others: 'count' }, {})
}
