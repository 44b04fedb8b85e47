import assert from 'node:assert/strict'
import { chmodSync, chownSync, existsSync, lstatSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type CliResult, spoold } from './cli.js'
import { type Daemon, startDaemon, writeIni } from './daemon.js'
import { leftIn } from './files.js'
import { until } from './until.js'

export interface ReportedFinding {
  readonly state: string
  readonly kind: string
  readonly path: string
  readonly meaning: string
  readonly fix: string
  readonly detail?: string
}

export async function fsck(...args: string[]): Promise<{ code: number | null; findings: ReportedFinding[] }> {
  const result = await spoold(['fsck', '--json', ...args])
  assert.equal(result.stderr, '')
  return { code: result.code, findings: findingsIn(result) }
}

const findingsIn = ({ stdout }: CliResult): ReportedFinding[] =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))

export const summary = (findings: readonly ReportedFinding[]) =>
  findings.map(({ state, kind, path }) => `${state} ${kind} ${path}`).sort()

/** Asserts that faults are found, that only --repair changes anything, and that the spool is clean after it. */
export async function foundAndRepaired(
  spool: string,
  expected: readonly string[],
  ...args: string[]
): Promise<ReportedFinding[]> {
  const before = pictureOf(spool)
  const { code, findings } = await fsck(spool, ...args)
  assert.deepEqual(summary(findings), expected.map(each => `found ${each}`).sort())
  assert.equal(code, 1)
  for (const { meaning, fix } of findings) assert.ok(meaning.length > 10 && fix.length > 5)
  assert.deepEqual(pictureOf(spool), before, 'fsck without --repair changes nothing')
  const repaired = await fsck('--repair', spool, ...args)
  assert.deepEqual(summary(repaired.findings), expected.map(each => `repaired ${each}`).sort())
  assert.equal(repaired.code, 0)
  await isClean(spool, ...args)
  return repaired.findings
}

export async function isClean(spool: string, ...args: string[]): Promise<void> {
  assert.deepEqual(await fsck(spool, ...args), { code: 0, findings: [] })
}

/** Returns a line for each file, with its times and other facts, to be compared. */
export function pictureOf(spool: string): string[] {
  return ['.', ...readdirSync(spool, { recursive: true }).map(String)].sort().map(path => {
    const stats = lstatSync(join(spool, path))
    const { mode, uid, size, ino, mtimeMs, ctimeMs } = stats
    return [path, mode, uid, size, ino, mtimeMs, ctimeMs].join(' ')
  })
}

export function configure(spool: string, settings: Parameters<typeof writeIni>[1] = {}): [string, string] {
  const ini = join(dirname(spool), 'fsck.ini')
  writeIni(ini, { spooler: spool, ...settings })
  return ['--ini', ini]
}

/** Kills a daemon and its workers at the same time. */
export async function killAll(daemon: Daemon): Promise<void> {
  const pids = [daemon.pid, ...daemon.children()]
  for (const pid of pids) process.kill(pid, 'SIGKILL')
  await daemon.exited
}

export const FAILS = `export default (env, task) => { JOURNAL(task.name); return task.SPOOL_RETRY }`
export const HANGS = `export default async (env, task) => { JOURNAL(task.name); await new Promise(() => setInterval(() => {}, 1000)) }`

function recordsIn(spool: string): string[] {
  const records = join(spool, '.spoold/records')
  return existsSync(records) ? readdirSync(records).filter(name => name.endsWith('.json')) : []
}

/** Runs the tasks of a spool until each handler has been called, then kills the daemon. */
export async function runAndKill(
  spool: string,
  handler: string,
  ini: Parameters<typeof writeIni>[1] = {},
): Promise<void> {
  const tasks = leftIn(spool).length
  const daemon = await startDaemon({ spool, handler, ini: { 'spooler-concurrency': tasks, ...ini } })
  await until('all were called', () => daemon.journal().length >= tasks)
  const waits = (name: string) => lstatSync(join(spool, name)).mtimeMs > Date.now() // set after the record is written
  if (handler === FAILS)
    await until('all are settled', () => recordsIn(spool).length === tasks && leftIn(spool).every(waits))
  await killAll(daemon)
}

export const LONG_AGO = 1_000_000_000
export const NOBODY = 65_534
export const NAME = 'uwsgi_spoolfile_on_x'

/** Gives a spool to a user, and makes its parent accessible to all. */
export function giveTo(spool: string, uid: number): void {
  chmodSync(dirname(spool), 0o777)
  chownSync(spool, uid, uid)
}
