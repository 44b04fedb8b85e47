import assert from 'node:assert/strict'
import { spoolSnapshotOf } from './control.js'
import { type Daemon, type DaemonSetup, startDaemon } from './daemon.js'
import { drop, packet, taskName } from './files.js'

/** A task sleeps for `ms`, or until there is a file `go`, and eats `mb` that it keeps; with `die`, it kills its process. */
const HANDLER = `
import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
const eaten = []
export default async ({ ms = 0, mb = 0, die, go }, task) => {
  JOURNAL('start ' + process.pid + ' ' + task.name)
  if (die) process.kill(process.pid, 'SIGKILL')
  if (Number(mb) > 0) eaten.push(Buffer.alloc(Number(mb) * 1024 * 1024, 1))
  await setTimeout(Number(ms))
  while (go && !existsSync(go)) await setTimeout(5)
  JOURNAL('end ' + process.pid + ' ' + task.name)
  return task.SPOOL_OK
}`

export type Ini = DaemonSetup['ini']

/** Starts a daemon that checks the size of its pool every 50 ms, so that a test of many checks is short. */
export const startScaled = (spool: string, ini: Ini) =>
  startDaemon({
    spool,
    handler: HANDLER,
    ini: { 'check-interval': 0.05, 'spooler-quiet': true, 'spooler-frequency': 1000, ...ini },
  })

export function put(
  spool: string,
  count: number,
  vars: Readonly<Record<string, string>> = {},
  mtime?: number,
) {
  return Array.from({ length: count }, () => {
    const name = taskName()
    drop(spool, name, packet({ name, ...vars }), mtime)
    return name
  })
}

export const processesOf = async (spool: string) => (await spoolSnapshotOf(spool)).processes
export const present = async (spool: string) => (await processesOf(spool)).present
export const ready = async (spool: string) =>
  (await processesOf(spool)).workers.filter(({ state }) => state === 'ready').length
export const scaledTo = ({ output }: Daemon) =>
  [...output.matchAll(/\] (\d+) process(?:es)?, not (\d+): /g)].map(([, to, from]) => [
    Number(from),
    Number(to),
  ])
export const lines = (daemon: Daemon, word: string) =>
  daemon
    .journal()
    .filter(line => line.startsWith(`${word} `))
    .map(line => line.split(' '))

/** Asserts that every task ran from its start to its end, once. */
export function assertWhole(daemon: Daemon, names: readonly string[]) {
  const of = (word: string) =>
    lines(daemon, word)
      .map(([, , name]) => name)
      .sort()
  assert.deepEqual([of('start'), of('end')], [[...names].sort(), [...names].sort()])
}

export async function stop(daemon: Daemon) {
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
}

/** Returns a function that is true once this many checks must have been made. */
export function checks(count: number): () => boolean {
  const from = performance.now()
  return () => performance.now() - from > count * 50
}
