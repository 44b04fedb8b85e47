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

/** A daemon that is growing: there is more to do than its processes can. */
async function growing(ini: Ini = {}) {
  const spool = spoolDirectory()
  const daemon = await startScaled(spool, { ...GROWING, ...ini })
  const names = put(spool, 300, { ms: '15' })
  await until('it grows', () => scaledTo(daemon).length >= 2)
  return { spool, daemon, names }
}

describe('while a pool grows and shrinks', () => {
  it('a reload freezes its number, cuts nothing, and it grows and shrinks again afterwards', async () => {
    const { spool, daemon, names } = await growing()
    for (let i = 0; i < 3; i++) {
      const reloads = daemon.output.split('reloaded').length
      const { length } = daemon.output
      daemon.child.kill('SIGHUP')
      await until('it has reloaded', () => daemon.output.split('reloaded').length > reloads)
      assert.ok((await present(spool)) <= 6)

      const text = daemon.output.slice(length)
      const replacing = text.slice(text.indexOf(KILLING), text.lastIndexOf(KILLING))
      assert.doesNotMatch(replacing, /process(es)?, not/)
    }
    await until('all have run', () => leftIn(spool).length === 0)
    await until('it is small again', () => daemon.workers().length === 1)
    assertWhole(daemon, names)
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
    await stop(daemon)
  })

  it('a stop ends it, and cuts nothing', async () => {
    const { daemon } = await growing()
    await stop(daemon)
    assert.equal(lines(daemon, 'start').length, lines(daemon, 'end').length)
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
  })

  for (const change of ['grows', 'shrinks'] as const)
    it(`a machine that stands still while it ${change} neither cuts nor repeats anything, nor starts more than it may`, async () => {
      const { spool, daemon, names } = await growing()
      if (change === 'shrinks') {
        await until('it shrinks', () => scaledTo(daemon).some(([from = 0, to = 0]) => to < from))
        names.push(...put(spool, 60, { ms: '15' }))
      }
      const all = [daemon.pid, ...daemon.workers()]
      for (const pid of all) if (isAlive(pid)) process.kill(pid, 'SIGSTOP')
      await sleep(STILL_MS) // the time that passes is what is tested
      for (const pid of all) if (isAlive(pid)) process.kill(pid, 'SIGCONT')
      await until('all have run', () => leftIn(spool).length === 0)
      await until('it is small again', () => daemon.workers().length === 1)
      assertWhole(daemon, names)
      // one that was to go and is still busy counts as present, and then one more comes
      assert.ok(scaledTo(daemon).every(([from = 0, to = 0]) => to - from <= 2 && to <= 6))
      assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
      await stop(daemon)
    })

  it('a stop while it shrinks ends it, and cuts nothing', async () => {
    const { spool, daemon } = await growing()
    await until('it shrinks', () => scaledTo(daemon).some(([from = 0, to = 0]) => to < from))
    put(spool, 30, { ms: '100' })
    const ended = lines(daemon, 'end').length
    await until('one of them runs', () => lines(daemon, 'end').length > ended)
    await stop(daemon)
    assert.equal(lines(daemon, 'start').length, lines(daemon, 'end').length)
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
  })

  it('tasks that kill their process cost the others nothing, and the pool nothing for long', async () => {
    const { spool, daemon, names } = await growing({ 'spooler-max-crashes': 1 })
    const deadly = put(spool, 4, { die: 'at once' })
    names.push(...put(spool, 100, { ms: '15' }))
    await until('all have run', () => leftIn(spool).length === 0)
    await until('it is small again', () => daemon.workers().length === 1)
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

  it('a reload while there is no process loads one, refuses what does not load, and the next task has the new code', async () => {
    const spool = spoolDirectory()
    const ini = { cheap: 'true', idle: 0.5, 'spooler-processes': 2, 'spooler-quiet': true }
    const handler = (says: string) =>
      `export default (env, task) => { JOURNAL('${says}'); return task.SPOOL_OK }`
    const daemon = await startDaemon({ spool, handler: handler('old'), ini })
    const change = (from: string, to: string) =>
      writeFileSync(daemon.handlerFile, readFileSync(daemon.handlerFile, 'utf8').replace(from, to))
    await until('there is none', () => daemon.workers().length === 0)
    change("'old'", "'old' +")
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the reload is rejected')
    assert.equal((await spoolSnapshotOf(spool)).totals.crashes, 0)
    change("'old' +", "'new'")
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('reloaded')
    await until('there is none again', () => daemon.workers().length === 0)
    put(spool, 1)
    await until('it has run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['new'])
    await stop(daemon)
  })

  it('processes that keep dying are no load: they are replaced at their pace, and the number does not grow', async () => {
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
    await until('each has crashed twice', () => died() >= 6)
    await until('many checks have passed', checks(60))
    assert.ok(scaledTo(daemon).every(([, to = 0]) => to <= 3))
    assert.ok(daemon.workers().length <= 4) // and one for what runs alone
    await stop(daemon)
  })

  it('one whose start hangs counts as there, so no other is started in its place', async () => {
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
    const names = put(spool, 60, { ms: '200' }) // one process needs longer for them than the other may take to load
    await daemon.waitFor('2 processes, not 1')
    await until('many checks have passed', checks(20))
    assert.ok(daemon.workers().length <= 2)
    await daemon.waitFor(/is still loading after 6 s \(spooler-start-timeout\)/)
    await until('all have run', () => leftIn(spool).length === 0)
    assertWhole(daemon, names)
    assert.ok(scaledTo(daemon).every(([, to = 0]) => to <= 2))
    await stop(daemon)
  })
})
