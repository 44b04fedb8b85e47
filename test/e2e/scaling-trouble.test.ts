import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  assertWhole,
  checks,
  type Ini,
  lines,
  present,
  put,
  scaledTo,
  startScaled,
  stop,
} from '../helpers/adaptive.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const STILL_MS = isLong ? 10_000 : 2000
const KILLING = 'killing the spooler with pid'
const GROWING = { cheaper: 1, workers: 6, 'cheaper-algo': 'backlog', 'cheaper-overload': 2 }

/** Starts a daemon whose pool is growing, because there is more to do than its processes can. */
async function growing(ini: Ini = {}) {
  const spool = spoolDirectory()
  const daemon = await startScaled(spool, { ...GROWING, ...ini })
  const names = put(spool, 300, { ms: '15' })
  await until('the pool grows', () => scaledTo(daemon).length >= 2)
  return { spool, daemon, names }
}

describe('while a pool grows and shrinks', () => {
  it('a reload freezes the number of processes and cuts no task short, and the pool shrinks afterwards', async () => {
    const { spool, daemon, names } = await growing()
    for (let i = 0; i < 3; i++) {
      const reloads = daemon.output.split('reloaded').length
      const { length } = daemon.output
      daemon.child.kill('SIGHUP')
      await until('the daemon has reloaded', () => daemon.output.split('reloaded').length > reloads)
      assert.ok((await present(spool)) <= 6)

      const text = daemon.output.slice(length)
      const replacing = text.slice(text.indexOf(KILLING), text.lastIndexOf(KILLING))
      assert.doesNotMatch(replacing, /process(es)?, not/)
    }
    await until('all tasks have run', () => leftIn(spool).length === 0)
    await until('the pool is small again', () => daemon.workers().length === 1)
    assertWhole(daemon, names)
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
    await stop(daemon)
  })

  it('a stop while the pool grows cuts no task short', async () => {
    const { daemon } = await growing()
    await stop(daemon)
    assert.equal(lines(daemon, 'start').length, lines(daemon, 'end').length)
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
  })

  for (const change of ['grows', 'shrinks'] as const)
    it(`a daemon that is frozen while its pool ${change} runs each task once, and starts few processes`, async () => {
      const { spool, daemon, names } = await growing()
      if (change === 'shrinks') {
        await until('the pool shrinks', () => scaledTo(daemon).some(([from = 0, to = 0]) => to < from))
        names.push(...put(spool, 60, { ms: '15' }))
      }
      const all = [daemon.pid, ...daemon.workers()]
      for (const pid of all) if (isAlive(pid)) process.kill(pid, 'SIGSTOP')
      await sleep(STILL_MS) // the passing of this time is what is tested
      for (const pid of all) if (isAlive(pid)) process.kill(pid, 'SIGCONT')
      await until('all tasks have run', () => leftIn(spool).length === 0)
      await until('the pool is small again', () => daemon.workers().length === 1)
      assertWhole(daemon, names)
      // A process that was to go and is still busy counts as present, so one more may come.
      assert.ok(scaledTo(daemon).every(([from = 0, to = 0]) => to - from <= 2 && to <= 6))
      assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
      await stop(daemon)
    })

  it('a stop while the pool shrinks cuts no task short', async () => {
    const { spool, daemon } = await growing()
    await until('the pool shrinks', () => scaledTo(daemon).some(([from = 0, to = 0]) => to < from))
    put(spool, 30, { ms: '100' })
    const ended = lines(daemon, 'end').length
    await until('one of the new tasks has run', () => lines(daemon, 'end').length > ended)
    await stop(daemon)
    assert.equal(lines(daemon, 'start').length, lines(daemon, 'end').length)
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
  })

  it('tasks that kill their process do not touch other tasks, and the pool becomes small again', async () => {
    const { spool, daemon, names } = await growing({ 'spooler-max-crashes': 1 })
    const deadly = put(spool, 4, { die: 'at once' })
    names.push(...put(spool, 100, { ms: '15' }))
    await until('all tasks have run', () => leftIn(spool).length === 0)
    await until('the pool is small again', () => daemon.workers().length === 1)
    const isGood = ([, , name = '']: string[]) => !deadly.includes(name)
    const ran = (word: string) =>
      lines(daemon, word)
        .filter(isGood)
        .map(([, , name]) => name)
        .sort()
    assert.deepEqual([ran('start'), ran('end')], [[...names].sort(), [...names].sort()])
    assert.equal(readdirSync(join(spool, '.spoold/dead')).filter(name => deadly.includes(name)).length, 4)
    assert.ok(scaledTo(daemon).every(([, to = 0]) => to <= 6))
    await stop(daemon)
  })

  it('a reload without a process refuses code that does not load, and the next task has the new code', async () => {
    const spool = spoolDirectory()
    const ini = { cheap: 'true', idle: 0.5, 'spooler-processes': 2, 'spooler-quiet': true }
    const handler = (says: string) =>
      `export default (env, task) => { JOURNAL('${says}'); return task.SPOOL_OK }`
    const daemon = await startDaemon({ spool, handler: handler('old'), ini })
    const change = (from: string, to: string) =>
      writeFileSync(daemon.handlerFile, readFileSync(daemon.handlerFile, 'utf8').replace(from, to))
    await until('the pool has no process', () => daemon.workers().length === 0)
    change("'old'", "'old' +")
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the reload is rejected')
    assert.equal((await spoolSnapshotOf(spool)).totals.crashes, 0)
    change("'old' +", "'new'")
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('reloaded')
    await until('the pool has no process again', () => daemon.workers().length === 0)
    put(spool, 1)
    await until('the task has run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['new'])
    await stop(daemon)
  })

  it('processes that keep dying are no load, so their number does not grow', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: `export default () => process.kill(process.pid, 'SIGKILL')`,
      ini: {
        ...{ 'check-interval': 0.05, cheaper: 2, workers: 6, 'cheaper-algo': 'spare' },
        ...{ 'spooler-max-crashes': 0, 'spooler-frequency': 1 },
      },
    })
    put(spool, 3)
    const died = () => daemon.output.match(/the process was killed by SIGKILL/g)?.length ?? 0
    await until('each task has crashed twice', () => died() >= 6)
    await until('many checks have passed', checks(60))
    assert.ok(scaledTo(daemon).every(([, to = 0]) => to <= 3))
    assert.ok(daemon.workers().length <= 4) // and one process for a task that runs alone
    await stop(daemon)
  })

  it('a process whose start hangs counts as present, so no other is started in its place', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'hang')
    const daemon = await startDaemon({
      spool,
      handler: `
        import { existsSync } from 'node:fs'
        import { setTimeout } from 'node:timers/promises'
        if (existsSync(${JSON.stringify(gate)})) await setTimeout(600_000)
        export default async ({ ms = 0 }, task) => {
          JOURNAL('start ' + process.pid + ' ' + task.name)
          await setTimeout(Number(ms))
          JOURNAL('end ' + process.pid + ' ' + task.name)
          return task.SPOOL_OK
        }`,
      ini: {
        'check-interval': 0.05,
        'spooler-start-timeout': 6,
        'spooler-quiet': true,
        ...GROWING,
        'cheaper-algo': 'spare',
      },
    })
    writeFileSync(gate, '')
    const names = put(spool, 60, { ms: '200' }) // one process takes longer for these than the other may take to load
    await daemon.waitFor('2 processes, not 1')
    await until('many checks have passed', checks(20))
    assert.ok(daemon.workers().length <= 2)
    await daemon.waitFor(/is still loading after 6 s \(spooler-start-timeout\)/)
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assertWhole(daemon, names)
    assert.ok(scaledTo(daemon).every(([, to = 0]) => to <= 2))
    await stop(daemon)
  })
})
