import { isUtf8 } from 'node:buffer'
import { spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import { messageOf } from '../base/errors.js'
import type { Link, WorkerMessage } from '../ipc/messages.js'
import type { VarPair } from '../protocol/packet.js'
import { IGNORE, OK, type Outcome, RETRY } from '../task/outcome.js'
import type { HandlerTask } from './handler-task.js'
import { logLines } from './log-lines.js'
import type { Performer } from './performer.js'

/** Descriptor 3 of the program. */
const BODY_FD = 3
/** sysexits.h: what no second try mends, and what one may. */
const EX_USAGE = 64
const EX_TEMPFAIL = 75
const EX_CONFIG = 78
/** Beyond sysexits. */
const EX_IGNORE = 100
/** What a packet says must not be taken for PATH or LD_PRELOAD. */
const PREFIX = 'SPOOL_'

/** Any program, as one process a task. */
export function execPerformer(
  { command, input }: Extract<Link, { kind: 'exec' }>,
  send: (message: WorkerMessage) => void,
): Performer {
  return async (run, _env, task) => {
    const { bodyBytes, vars } = run.claim
    const child = spawn('/bin/sh', ['-c', command], {
      stdio: ['pipe', 'pipe', 'pipe', bodyBytes === 0 ? 'ignore' : 'pipe'],
      env: { ...process.env, ...environmentOf(task) },
      detached: true, // a group of its own, which can be ended as a whole
    })
    const ended = new Promise<Outcome>(resolve => {
      child.once('error', error =>
        resolve({ kind: 'error', detail: `sh cannot be run: ${messageOf(error)}` }),
      )
      child.once('exit', (code, signal) => resolve(outcomeOf(code, signal)))
    })
    const { pid } = child
    if (pid !== undefined) send({ type: 'child-started', pid })
    feed(child.stdio[0], input === 'json' ? Buffer.from(jsonOf(task)) : Buffer.from(vars.text, 'latin1'))
    if (bodyBytes > 0) feed(child.stdio[BODY_FD] as Writable | null, task.body ?? Buffer.alloc(0))
    const logged = (['stdout', 'stderr'] as const).map(stream =>
      logLines(child[stream], message => task.logAndWait({ message, stream })),
    )
    const outcome = await ended
    if (pid !== undefined) send({ type: 'child-ended', pid })
    for (const last of logged) await last()
    return outcome
  }
}

function outcomeOf(code: number | null, signal: string | null): Outcome {
  if (code === 0) return OK
  if (code === EX_TEMPFAIL) return RETRY
  if (code === EX_IGNORE) return IGNORE
  const detail =
    signal === null ? `the program exited with code ${code}` : `the program was killed by ${signal}`
  return code !== null && code >= EX_USAGE && code <= EX_CONFIG
    ? { kind: 'bury', detail }
    : { kind: 'error', detail }
}

/** A program may well not read all of it. */
function feed(stream: Writable | null, bytes: Buffer): void {
  stream?.on('error', () => {})
  stream?.end(bytes)
}

/** Values that are no UTF-8 are `{"base64": "…"}`, as in `spoold show --json`. */
function jsonOf(task: HandlerTask): string {
  const entries = task.vars.map(([key, value]) => [
    key.toString(),
    isUtf8(value) ? value.toString() : { base64: value.toString('base64') },
  ])
  return `${JSON.stringify({ ...Object.fromEntries(entries), spooler_task_name: task.name })}\n`
}

function environmentOf(task: HandlerTask): Record<string, string> {
  const usable = ([key, value]: VarPair) =>
    /^[A-Za-z0-9_]+$/.test(key.toString('latin1')) && !value.includes(0)
  const entries = task.vars.filter(usable).map(([key, value]) => [`${PREFIX}${key}`, value.toString()])
  return {
    ...Object.fromEntries(entries),
    [`${PREFIX}task_name`]: task.name,
    [`${PREFIX}task_path`]: task.path,
  }
}
