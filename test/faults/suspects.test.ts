import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { BESIDE, STARTED } from '#src/engines/spool/state-byte.js'
import { MODIFIER2_OFFSET } from '#src/formats/protocol/header.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** A bad task exits or hangs after a moment; a good one takes its time. */
const HANDLER = `
  import { setTimeout } from 'node:timers/promises'
  export default async (env, task) => {
    JOURNAL('start ' + env.n + ' ' + process.pid + ' ' + task.attempt)
    await setTimeout(env.do === undefined ? 400 : 100)
    if (env.do === 'exit') process.exit(9)
    if (env.do === 'hang') await new Promise(() => {})
    JOURNAL('end ' + env.n + ' ' + process.pid)
    return task.SPOOL_OK
  }`

const INI = { 'spooler-concurrency': 4, 'spooler-frequency': 1, 'spooler-quiet': true }

function dropMany(spool: string, prefix: string, count: number, vars: Record<string, string> = {}): string[] {
  return Array.from({ length: count }, (_, i) => {
    drop(spool, `${prefix}-${i}`, packet({ n: `${prefix}-${i}`, ...vars }))
    return `${prefix}-${i}`
  })
}

/** Marks a task as its process leaves it if it began beside others. */
function begunBeside(bytes: Buffer): Buffer {
  bytes[MODIFIER2_OFFSET] = STARTED | BESIDE
  return bytes
}

function endsOf(daemon: Daemon, n: string): number {
  return daemon.journal().filter(line => line.startsWith(`end ${n} `)).length
}

describe('several tasks in one process that dies', { concurrency: 3 }, () => {
  it('are not counted for what one of them did, and only the guilty tasks are buried', async () => {
    const spool = spoolDirectory()
    const bad = dropMany(spool, 'bad', 2, { do: 'exit' })
    const good = dropMany(spool, 'good', 12)
    const daemon = await startDaemon({ spool, handler: HANDLER, ini: { ...INI, 'spooler-max-crashes': 2 } })
    await until('nothing is left', () => leftIn(spool).length === 0, 90_000)
    const letters = await deadOf(spool)
    assert.deepEqual([...letters.keys()].sort(), bad)
    for (const n of bad) assert.equal(letters.get(n)?.crashes, 2)
    for (const n of good) assert.equal(endsOf(daemon, n), 1, n)
  })

  it('run alone after a crash, so that no other task begins twice', async () => {
    const spool = spoolDirectory()
    drop(spool, 'bad', begunBeside(packet({ n: 'bad', do: 'exit' })))
    const good = dropMany(spool, 'good', 40) // at work for at least 4 s, while the bad task runs three times
    // With spooler-ordered the bad task does not wait until the good ones have run.
    const daemon = await startDaemon({ spool, handler: HANDLER, ini: { ...INI, 'spooler-ordered': true } })
    await until('nothing is left', () => leftIn(spool).length === 0, 60_000)
    assert.equal((await deadOf(spool)).get('bad')?.crashes, 3)
    const starts = daemon.journal().filter(line => line.startsWith('start good'))
    assert.deepEqual(starts.map(line => line.split(' ')[1]).sort(), good.sort())
  })

  it('run alone the next time, in a process that leaves when there are none', async () => {
    const spool = spoolDirectory()
    const gate = join(spool, '..', 'gate')
    const handler = `
      import { existsSync } from 'node:fs'
      import { setTimeout } from 'node:timers/promises'
      let running = 0
      export default async (env, task) => {
        JOURNAL('start ' + env.n + ' ' + process.pid + ' ' + ++running)
        while (!existsSync(${JSON.stringify(gate)})) await setTimeout(10)
        running--
        return task.SPOOL_OK
      }`
    const names = dropMany(spool, 'task', 4)
    const daemon = await startDaemon({ spool, handler, ini: INI })
    await until('all tasks run', () => daemon.journal().length === 4)
    const [first = 0] = daemon.workers()
    process.kill(first, 'SIGKILL')
    await until('one task runs again', () => daemon.journal().length > 4)
    writeFileSync(gate, '')
    await until('all tasks have run', () => leftIn(spool).length === 0)
    const again = daemon.journal().slice(4)
    assert.deepEqual(again.map(line => line.split(' ')[1]).sort(), names)
    assert.deepEqual(
      again.filter(line => !line.endsWith(' 1')),
      [],
    )
    const lone = new Set(again.map(line => Number(line.split(' ')[2])))
    assert.equal(lone.size, 1)
    await until('the daemon has one worker', () => daemon.workers().length === 1)
    assert.ok(![...lone].some(isAlive))
    assert.equal((await deadOf(spool)).size, 0)
    assert.ok(!existsSync(join(spool, '.spoold/records/task-0.json')))
  })

  it('run alone, one after the other, even in another daemon', async () => {
    const spool = spoolDirectory()
    const handler = `
      import { setImmediate } from 'node:timers/promises'
      let running = 0
      export default async (env, task) => {
        const beside = running++
        await setImmediate()
        running--
        JOURNAL(env.n + ' ' + beside)
        return task.SPOOL_OK
      }`
    const COUNT = 40
    for (let i = 0; i < COUNT; i++) drop(spool, `suspect-${i}`, begunBeside(packet({ n: `${i}` })))
    const daemon = await startDaemon({ spool, handler, ini: { ...INI, drain: true } })
    assert.equal(await daemon.code(), 0)
    const runs = daemon.journal().sort()
    assert.deepEqual(runs, Array.from({ length: COUNT }, (_, i) => `${i} 0`).sort())
  })

  it('are named in the log only if they had begun', async () => {
    const spool = spoolDirectory()
    const handler = `export default (env, task) => { JOURNAL(env.n); if (env.do !== 'exit') return -2; process.exit(9) }`
    drop(spool, 'a-exits', packet({ n: 'a', do: 'exit' }))
    const daemon = await startDaemon({
      spool,
      handler,
      ini: { ...INI, 'spooler-concurrency': 1, 'spooler-max-crashes': 1, 'spooler-ordered': true },
    })
    await daemon.waitFor('the process exited with code 9; it had a-exits\n')
    await daemon.waitFor('a-exits is buried')
  })
})

describe('a task that somebody ends', { concurrency: 3 }, () => {
  for (const [title, signals] of [
    ['SIGQUIT', ['SIGQUIT']],
    ['a second SIGTERM', ['SIGTERM', 'SIGTERM']],
  ] as const)
    for (const concurrency of [1, 4])
      it(`by ${title} counts no crash (spooler-concurrency = ${concurrency})`, async () => {
        const spool = spoolDirectory()
        const ini = { ...INI, 'spooler-concurrency': concurrency, 'spooler-max-crashes': 1 }
        const names = dropMany(spool, 'long', concurrency, { do: 'hang' })
        for (let run = 1; run <= 3; run++) {
          const daemon = await startDaemon({ spool, handler: HANDLER, ini })
          await until('all tasks run', () => daemon.journal().length === run * concurrency)
          for (const [i, signal] of signals.entries()) {
            if (i > 0) await daemon.waitFor('killing workers')
            // A second signal that comes at once counts as the same one, sent to the group.
            if (i > 0) await new Promise(resolve => setTimeout(resolve, 300))
            daemon.child.kill(signal)
          }
          assert.equal(await daemon.code(), 0)
          assert.match(daemon.output, /killing everything now/)
          assert.doesNotMatch(daemon.output, /counts as a crash/)
          assert.deepEqual(leftIn(spool).sort(), names)
          assert.deepEqual(
            daemon.journal().filter(line => !line.endsWith(' 1')),
            [],
          )
        }
        assert.equal((await deadOf(spool)).size, 0)
      })

  it('is buried if it runs at most once, because it may have done its work', async () => {
    const spool = spoolDirectory()
    drop(spool, 'once', packet({ n: 'once', do: 'hang', spooler_delivery: 'at-most-once' }))
    const daemon = await startDaemon({ spool, handler: HANDLER, ini: { ...INI, 'spooler-concurrency': 1 } })
    await until('the task runs', () => daemon.journal().length === 1)
    daemon.child.kill('SIGQUIT')
    assert.equal(await daemon.code(), 0)
    const next = await startDaemon({ spool, handler: HANDLER, ini: INI })
    await until('the task is dead', () => leftIn(spool).length === 0)
    assert.equal((await deadOf(spool)).get('once')?.reason, 'outcome-unknown')
    assert.equal(next.journal().length, 1)
  })
})
