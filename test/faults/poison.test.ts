import assert from 'node:assert/strict'
import { readFileSync, statfsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { deadOf, runsOf } from '../helpers/witness.js'
import { FIXTURES, spoolDirectory } from '../helpers/workspace.js'

/** How many bad tasks are in front of the good ones, for one worker. */
const BAD = isLong ? 6 : 2
const LOG_MEGABYTES = isLong ? 1024 : 64

/** Journals each start, then does what the key `do` of the task says; a task without the key is good. */
const HANDLER = `
  import { spawn } from 'node:child_process'
  import { poison } from ${JSON.stringify(join(FIXTURES, 'handlers/poison.mjs'))}
  import { writeSync } from 'node:fs'
  const forever = () => new Promise(() => {})
  const acts = {
    ...poison,
    'log-ipc': (env, task) => { for (let i = 0; i < ${LOG_MEGABYTES}; i++) task.log('x'.repeat(2 ** 20)); throw new Error('logged') },
    'log-stdout': async () => {
      for (let i = 0; i < ${LOG_MEGABYTES}; i++) try { writeSync(1, 'x'.repeat(2 ** 20)) } catch {}
      throw new Error('logged')
    },
    bomb: () => { for (let i = 0; i < 1000; i++) spawn('sleep', ['1'], { stdio: 'ignore' }); return forever() },
  }
  export default (env, task) => {
    JOURNAL('start ' + env.n + ' ' + process.pid + ' ' + process.ppid)
    if (env.do !== undefined) return acts[env.do](env, task)
    JOURNAL('end ' + env.n + ' ' + process.pid)
    return task.SPOOL_OK
  }`

/** A task that kills its process counts a crash; an error that is caught, in the handler or out of it, is a failed attempt. */
const REASONS = {
  abort: 'crashes',
  'exit-0': 'crashes',
  'exit-1': 'crashes',
  memory: 'crashes',
  loop: 'crashes',
  rejection: 'attempts',
  stack: 'attempts',
} as const

const INI = {
  'spooler-frequency': 1,
  'spooler-harakiri': 2, // longer than the other tasks take on a busy machine
  'spooler-max-attempts': 3,
  'spooler-quiet': true,
  'spooler-ordered': true,
}

function dropGood(spool: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    drop(spool, `good-${i}`, packet({ n: `good-${i}` }))
    return `good-${i}`
  })
}

function assertGoodRan(daemon: Pick<Daemon, 'journal'>, good: readonly string[]): void {
  const runs = runsOf(daemon.journal())
  // A task whose report another task's crash prevented may be looked at again, but not run again.
  for (const n of good)
    assert.deepEqual(
      runs.get(n)?.map(({ hasEnded }) => hasEnded),
      [true],
      n,
    )
}

async function assertDead(spool: string, journal: readonly string[], n: string, reason: string) {
  const runs = runsOf(journal).get(n) ?? []
  const letter = (await deadOf(spool)).get(n)
  assert.equal(letter?.reason, reason, `${n}: ${letter?.detail}; ${letter?.lastError}`)
  assert.equal(runs.length, 3, `${n} ran ${runs.length} times`)
  assert.equal(reason === 'crashes' ? letter.crashes : letter.attempts, 3)
}

describe('poison', () => {
  it('of every kind runs three times and is buried, while good tasks around it run once', async () => {
    const spool = spoolDirectory()
    const good = dropGood(spool, 100)
    for (const what of Object.keys(REASONS)) drop(spool, what, packet({ n: what, do: what }))
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      ini: { ...INI, 'spooler-processes': 2 },
      env: { NODE_OPTIONS: '--max-old-space-size=64' },
    })
    await until('the good tasks have run', () => leftIn(spool).every(name => name in REASONS), 30_000)
    await until('nothing is left', () => leftIn(spool).length === 0, 60_000)
    assertGoodRan(daemon, good)
    for (const [what, reason] of Object.entries(REASONS))
      await assertDead(spool, daemon.journal(), what, reason)
    const letters = await deadOf(spool)
    assert.match(letters.get('abort')?.lastError ?? '', /was killed by SIGABRT/)
    assert.match(letters.get('exit-1')?.lastError ?? '', /exited with code 1/)
    assert.match(letters.get('loop')?.lastError ?? '', /overran spooler-harakiri/)
    assert.match(letters.get('rejection')?.lastError ?? '', /nobody awaits this/)
    assert.match(letters.get('stack')?.lastError ?? '', /Maximum call stack size exceeded/)
    assert.ok(daemon.isRunning)
  })

  it('in front of everything, with one worker, lets the good tasks run before it is buried', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < BAD; i++) drop(spool, `bad-${i}`, packet({ n: `bad-${i}`, do: 'exit-0' }))
    const good = dropGood(spool, 20)
    const daemon = await startDaemon({ spool, handler: HANDLER, ini: INI })
    await until('the good tasks have run', () => leftIn(spool).every(name => name.startsWith('bad-')))
    await until('nothing is left', () => leftIn(spool).length === 0, isLong ? 600_000 : 60_000)
    assertGoodRan(daemon, good)
    for (let i = 0; i < BAD; i++) await assertDead(spool, daemon.journal(), `bad-${i}`, 'crashes')
  })

  it(`that logs ${LOG_MEGABYTES} MB on a disk without room is buried, and the master stays below 300 MB`, {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const disk = smallDisk('size=16m')
    const spool = spoolDirectory()
    for (const what of ['log-ipc', 'log-stdout']) drop(spool, what, packet({ n: what, do: what }))
    const good = dropGood(spool, 20)
    const ini = { ...INI, 'spooler-harakiri': 60, logto: join(disk, 'log') }
    const daemon = await startDaemon({ spool, handler: HANDLER, ini, isUnready: true })
    await until('nothing is left', () => leftIn(spool).length === 0, isLong ? 180_000 : 40_000)
    assertGoodRan(daemon, good)
    for (const what of ['log-ipc', 'log-stdout']) await assertDead(spool, daemon.journal(), what, 'attempts')
    assert.equal(statfsSync(disk).bavail, 0, 'the disk was full')
    const peak = Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1])
    assert.ok(peak < 300 * 1024, `the master took ${Math.round(peak / 1024)} MB`)
  })

  it('that forks until it cannot, under a limit, is buried, and the daemon goes on', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    drop(spool, 'bomb', packet({ n: 'bomb', do: 'bomb' }))
    const good = dropGood(spool, 20)
    const user = '54321' // a user of no other process, so that the limit counts only ours
    assert.equal(await new TestProcess('chown', ['-R', user, dirname(spool)]).code(), 0)
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      ini: { ...INI, 'spooler-harakiri': 60 }, // the limit of processes ends the run
      under: ['prlimit', '--nproc=60', 'setpriv', `--reuid=${user}`, '--regid=0', '--clear-groups'],
      isUnready: true,
    })
    await until('nothing is left', () => leftIn(spool).length === 0, 60_000)
    assertGoodRan(daemon, good)
    await assertDead(spool, daemon.journal(), 'bomb', 'attempts')
    assert.match((await deadOf(spool)).get('bomb')?.lastError ?? '', /EAGAIN/)
    assert.ok(daemon.isRunning)
  })
})
