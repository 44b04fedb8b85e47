import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { type Daemon, startDaemon } from './daemon.js'
import { drop, leftIn, packet } from './files.js'
import { isAlive } from './process.js'
import { PYTHON } from './python.js'
import { until } from './until.js'

/**
 * A handler that does what the task's `do` says. It journals `start` and `end` lines; `hold` runs until the file named in `until`
 * exists.
 */
const ACTOR = `
import { existsSync } from 'node:fs'
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const leave = (env, late) => {
  const timer = setInterval(() => {
    if (!existsSync(env.until)) return
    clearInterval(timer)
    late()
  }, 5)
}
const acts = {
  ok: () => {},
  hold: async env => { while (!existsSync(env.until)) await sleep(5) },
  block: () => { for (;;) {} },
  exit: () => process.exit(0),
  'exit-1': () => process.exit(1),
  abort: () => process.abort(),
  throw: () => { throw new Error('thrown at once') },
  reject: async () => { await sleep(5); throw new Error('rejected') },
  'throw-late': () => { setTimeout(() => { throw new Error('thrown late') }, 20); return new Promise(() => {}) },
  'throw-after': () => { setTimeout(() => { throw new Error('thrown after') }, 20) },
  'throw-behind': env => { leave(env, () => { throw new Error('thrown behind') }) },
  'exit-behind': env => { leave(env, () => process.exit(1)) },
  'reject-behind': env => { leave(env, () => { Promise.reject(new Error('rejected behind')) }) },
  'reject-late': () => { setTimeout(() => Promise.reject(new Error('rejected late')), 20); return new Promise(() => {}) },
  'ignore-term': async env => { process.on('SIGTERM', () => {}); while (!existsSync(env.until)) await sleep(5) },
  signal: (env, task) => new Promise(resolve => task.signal.addEventListener('abort', () => { JOURNAL('warned ' + env.n); resolve() })),
  leak: () => { (globalThis.leaked ??= []).push(Buffer.alloc(5e6, 1)) },
}
export default async (env, task) => {
  JOURNAL('start ' + env.n + ' ' + process.pid + ' ' + task.attempt)
  await acts[env.do](env, task)
  JOURNAL('end ' + env.n)
  return task.SPOOL_OK
}`

type Ini = NonNullable<Parameters<typeof startDaemon>[0]['ini']>

export async function startActor(spool: string, ini: Ini = {}): Promise<Daemon> {
  return startDaemon({ spool, handler: ACTOR, ini: { 'spooler-frequency': 1, ...ini } })
}

let count = 0
/** Drops a task that does `what`. @returns its number */
export function act(spool: string, what: string, more: Record<string, string> = {}): string {
  const n = String(++count)
  drop(spool, undefined, packet({ n, do: what, ...more }))
  return n
}

export const linesOf = (daemon: Daemon, word: string, n: string) =>
  daemon.journal().filter(line => line.startsWith(`${word} ${n} `) || line === `${word} ${n}`)
export const started = (daemon: Daemon, n: string, times = 1) =>
  until(`task ${n} has started ${times} times`, () => linesOf(daemon, 'start', n).length >= times)
export const ended = (daemon: Daemon, n: string) =>
  until(`task ${n} has ended`, () => linesOf(daemon, 'end', n).length > 0)
export const pidOf = (daemon: Daemon, n: string) => Number(linesOf(daemon, 'start', n).at(-1)?.split(' ')[2])

/** Asserts that none of the processes is left, and that no lock is held on the files that are left. */
export async function assertGone(spool: string, pids: readonly number[]): Promise<void> {
  await until('no process is left', () => !pids.some(isAlive))
  const script = `import fcntl, sys, os
for f in sys.argv[1:]: fcntl.lockf(open(f, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)`
  execFileSync(PYTHON, ['-c', script, ...leftIn(spool).map(name => join(spool, name))])
}
