import { isUtf8 } from 'node:buffer'
import { spawn } from 'node:child_process'
import { readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf, messageOf, quietly } from '../../base/errors.js'
import { CANCEL_MS } from '../../base/task/cancel.js'
import { IGNORE, OK, type Outcome, RETRY } from '../../base/task/outcome.js'
import type { Claim } from '../../engines/claims.js'
import type { VarPair } from '../../formats/protocol/packet.js'
import { partsOf } from '../ipc/frames.js'
import type { HandlerSpec, WorkerMessage } from '../ipc/messages.js'
import type { HandlerCall, HandlerTask } from './handler-task.js'
import { OutputPipe, readOutput } from './output-pipe.js'
import { type Programs, signalGroup } from './programs.js'
import type { Run } from './run.js'

/** The descriptor of the program from which it reads the body. */
const BODY_FD = 3
/** A larger body is read from the file in pieces of this many bytes, so that it need not fit into memory. */
const PIECE_BYTES = 1024 * 1024
/** The most characters of a line of output. A longer one is split into several. */
const MAX_LINE_CHARS = 8192
/** The pause, in ms, between two looks at a process group whose leader has ended. */
const LOOK_MS = 20
/**
 * A shell script that waits for a line on standard input before it becomes the command, so that no program starts before it is
 * watched. `read` takes single bytes, so the input behind the line stays in the pipe.
 */
const GATE = 'read -r spoold_gate && exec /bin/sh -c "$1"'
/** A command whose words a shell passes on as they are. */
const PLAIN_WORDS = /^[\w ./:=,@%+-]+$/
const OPEN_GATE = '\n'
/** sysexits.h: the permanent failures (64–78) and the one temporary failure (75). */
const EX_USAGE = 64
const EX_TEMPFAIL = 75
const EX_CONFIG = 78
/** The exit code for SPOOL_IGNORE. It is not from sysexits.h. */
const EX_IGNORE = 100
const UNWATCHED = notStarted('sh cannot be run to watch the program')
/** Errors of a process or machine that has run out of a resource: they say nothing about the task. */
const SHORTAGES = new Set(['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM'])
const SIGNALS = 64
/** The prefix of variables from a packet, so that no key of a packet sets PATH or LD_PRELOAD. */
const PREFIX = 'SPOOL_'
/** Linux starts no program with a longer variable (MAX_ARG_STRLEN). The name, `=` and the NUL at the end count. */
const MAX_VARIABLE_BYTES = 131_072

/**
 * Returns a handler that runs a program, as one process per task. The program shares the task's lock (descriptor 4), so that no
 * other process runs the task before the program has ended, even if the worker or the daemon is killed.
 */
export function callProgram(
  { command, input }: Extract<HandlerSpec, { kind: 'exec' }>,
  send: (message: WorkerMessage) => void,
  programs: Programs,
): HandlerCall {
  const replacing = inPlaceOfShell(command)
  return async (run, task) => {
    const { vars } = run.claim
    const lock = run.claim.shareLock()
    const pipes = [OutputPipe.open(), OutputPipe.open()]
    const [stdout, stderr] = pipes.map(pipe => pipe?.writer ?? 'pipe')
    const start = () =>
      spawn('/bin/sh', ['-c', GATE, 'sh', replacing], {
        stdio: ['pipe', stdout, stderr, 'pipe', lock ?? 'ignore'],
        env: { ...process.env, ...environmentOf(task) },
        detached: true, // a process group of its own, which can be killed as a whole
      })
    let child: ReturnType<typeof start>
    try {
      child = start()
    } catch (error) {
      for (const pipe of pipes) pipe?.spawned(undefined)
      return whyNotSpawned(error) // Node throws some errors, among them ENOMEM, and emits the others
    }
    const ended = new Promise<Outcome>(resolve => {
      child.once('error', error => resolve(whyNotSpawned(error)))
      child.once('exit', (code, signal) => resolve(outcomeOf(code, signal, run.claim.isOnce)))
    })
    const { pid } = child
    for (const pipe of pipes) pipe?.spawned(pid)
    if (pid === undefined) return ended
    send({ type: 'child-started', pid })
    const whenEnded = endWhenCancelled(run, pid)
    const isWatched = await programs.started(pid).then(
      () => true,
      () => false,
    )
    const packet = input === 'json' ? Buffer.from(jsonOf(task)) : Buffer.from(vars.text, 'latin1')
    feed(child.stdio[0], isWatched ? Buffer.concat([Buffer.from(OPEN_GATE), packet]) : Buffer.alloc(0))
    const body = child.stdio[BODY_FD] as Writable
    const fed = feedBody(body, run.claim, lock).then(
      () => undefined,
      (error: unknown): Outcome => {
        signalGroup(pid, 'SIGKILL') // the program must not take a part of the body for the whole
        const kind = run.claim.isOnce ? 'crash' : 'error'
        return {
          kind,
          detail: `the program was killed, because its body could not be read: ${messageOf(error)}`,
        }
      },
    )
    const logged = (['stdout', 'stderr'] as const).map((stream, i) =>
      logLines(pipes[i]?.reader ?? child[stream], (message, sent) => task.say({ message, stream }, sent)),
    )
    const outcome = isWatched ? await ended : await ended.then(() => UNWATCHED)
    body.destroy()
    const unread = await fed
    await whenEnded()
    programs.ended(pid)
    send({ type: 'child-ended', pid })
    for (const finish of logged) finish()
    return unread ?? outcome
  }
}

/**
 * Returns the command, with `exec` in front if it is a single program. Such a program takes the place of its shell, which a
 * cancel would end, so that the program's own exit code tells how it ended. In `a && b`, a loop or a pipe, the code of one
 * program says nothing of the others.
 */
function inPlaceOfShell(command: string): string {
  const [program = ''] = command.trim().split(' ', 1)
  const directories = (process.env.PATH ?? '').split(':')
  // a file, not a word of the shell itself, such as `exit` or `.`
  const isFile =
    program.includes('/') ||
    directories.some(directory => quietly(() => statSync(join(directory, program)).isFile()) === true)
  return PLAIN_WORDS.test(command) && !program.includes('=') && isFile ? `exec ${command}` : command
}

/**
 * Makes a cancel end the program and the processes that it has started: by SIGTERM, and by SIGKILL if that takes too long.
 *
 * @returns a function to be called when the program has ended. It resolves when the processes that the program has started have
 *   ended, or have had their time to end
 */
function endWhenCancelled(run: Run, group: number): () => Promise<void> {
  let killAt = 0
  let timer: NodeJS.Timeout | undefined
  run.isProgram = true
  run.whenCancelled(() => {
    signalGroup(group, 'SIGTERM')
    killAt = performance.now() + CANCEL_MS
    timer = setTimeout(() => signalGroup(group, 'SIGKILL'), CANCEL_MS)
  })
  return async () => {
    // a shell dies of SIGTERM before the command that it has started has cleaned up
    while (performance.now() < killAt && signalGroup(group, 0)) await sleep(LOOK_MS)
    clearTimeout(timer)
    run.isProgram = false
    run.whenCancelled(() => {})
  }
}

/** Returns the outcome of a task whose program was not spawned. @param error why it was not */
function whyNotSpawned(error: unknown): Outcome {
  const detail = `sh cannot be run: ${messageOf(error)}`
  return SHORTAGES.has(errnoOf(error) ?? '') ? notStarted(detail) : { kind: 'error', detail }
}

function notStarted(shortage: string): Outcome {
  return { kind: 'release', isUnbegun: true, shortage }
}

/**
 * Returns the outcome of a program that has ended.
 *
 * @param isOnce true for an at-most-once task. If its program was killed, the outcome is unknown: the work may have been done
 */
function outcomeOf(code: number | null, signal: string | null, isOnce: boolean): Outcome {
  if (code === 0) return OK
  if (code === EX_TEMPFAIL) return RETRY
  if (code === EX_IGNORE) return IGNORE
  const where =
    code === 126 || code === 127
      ? `, which is the shell's for a program that it cannot run (in ${process.cwd()})`
      : ''
  const detail =
    signal === null ? `the program exited with code ${code}${where}` : `the program was killed by ${signal}`
  if (isOnce && isKilled(code, signal))
    return { kind: 'crash', detail: `${detail}; it may have done its work` }
  return code !== null && code >= EX_USAGE && code <= EX_CONFIG
    ? { kind: 'bury', detail }
    : { kind: 'error', detail }
}

/** A shell exits with 128 plus the signal's number if a signal ended its command. */
function isKilled(code: number | null, signal: string | null): boolean {
  return signal !== null || (code !== null && code > 128 && code <= 128 + SIGNALS)
}

/** Writes the input of a program. Ignores errors, because a program need not read all of its input. */
function feed(stream: Writable | null, bytes: Buffer): void {
  stream?.on('error', () => {})
  stream?.end(bytes)
}

/**
 * Writes the body to the program, until the program closes its end.
 *
 * @param file the task's file, if the engine has one
 * @throws if the body cannot be read
 */
async function feedBody(pipe: Writable, claim: Claim, file: number | undefined): Promise<void> {
  if (file === undefined || claim.bodyBytes <= PIECE_BYTES)
    return feed(pipe, claim.readBody() ?? Buffer.alloc(0))
  pipe.on('error', () => {})
  const start = claim.vars.text.length
  for (let at = 0; at < claim.bodyBytes && !pipe.destroyed; ) {
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, claim.bodyBytes - at))
    const got = readSync(file, piece, 0, piece.length, start + at)
    if (got === 0)
      throw new Error(`it ends after ${at} of ${claim.bodyBytes} bytes: the file was cut while it ran`)
    at += got
    if (!pipe.write(piece.subarray(0, got))) await room(pipe)
  }
  pipe.end()
}

/** Resolves when the pipe has room, or is closed. */
function room(pipe: Writable): Promise<void> {
  return new Promise(resolve => {
    const told = () => {
      pipe.off('drain', told).off('close', told)
      resolve()
    }
    pipe.on('drain', told).on('close', told)
  })
}

/**
 * Logs what a program prints, line by line.
 *
 * @param log logs a line, and calls `sent` when there is room for more
 * @returns a function that logs the last output of a program that has ended, and stops reading
 */
function logLines(stream: Readable | null, log: (line: string, sent: () => void) => void): () => void {
  let rest = ''
  const finish = readOutput(stream, (text, taken) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE_CHARS) {
      lines.push(rest)
      rest = ''
    }
    const cut = lines.flatMap(line => partsOf(line, MAX_LINE_CHARS))
    for (const line of cut.slice(0, -1)) log(line, () => {})
    const last = cut.at(-1)
    if (last === undefined) taken()
    else log(last, taken)
  })
  return () => {
    finish()
    if (rest !== '') log(rest, () => {})
    stream?.destroy() // a process that outlives the program may still have the pipe
  }
}

/** Returns the task as JSON. Values that are not UTF-8 are `{"base64": "…"}`, as in `spoold show --json`. */
function jsonOf(task: HandlerTask): string {
  const entries = task.vars.map(([key, value]) => [
    key.toString(),
    isUtf8(value) ? value.toString() : { base64: value.toString('base64') },
  ])
  return `${JSON.stringify({ ...Object.fromEntries(entries), spooler_task_name: task.name })}\n`
}

/**
 * Returns the variables of a task, without those that are too long. A value that is not UTF-8 may have three times as many bytes
 * here as in the packet.
 */
function environmentOf(task: HandlerTask): Record<string, string> {
  const usable = ([key, value]: VarPair) =>
    /^[A-Za-z0-9_]+$/.test(key.toString('latin1')) && !value.includes(0)
  const entries = task.vars
    .filter(usable)
    .map(([key, value]) => [`${PREFIX}${key}`, value.toString()] as const)
    .filter(([name, text]) => Buffer.byteLength(name) + Buffer.byteLength(text) + 2 <= MAX_VARIABLE_BYTES)
  return {
    ...Object.fromEntries(entries),
    [`${PREFIX}task_name`]: task.name,
    [`${PREFIX}task_path`]: task.path,
  }
}
