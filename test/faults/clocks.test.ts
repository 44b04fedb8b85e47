import assert from 'node:assert/strict'
import { readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { inProcess } from '../helpers/cli.js'
import { movableClock } from '../helpers/clock.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { cpuShare } from '../helpers/usage.js'
import { spoolDirectory } from '../helpers/workspace.js'

const DAY_S = 86_400
const YEAR_2038_S = 2 ** 31
/** For how long, in ms, tasks that must not run are watched, and how much all processes may work meanwhile. */
const WATCHED_MS = 1500
const CPU_SHARE = 0.5

/** Journals the start of a task by a clock that is not moved; a task with `again` is retried once. */
const HANDLER = `
  export default (env, task) => {
    JOURNAL(env.n + ' ' + (performance.timeOrigin + performance.now()))
    return env.again === 'yes' && task.attempt === 1 ? { retry: 1 } : task.SPOOL_OK
  }`

const ranAt = (daemon: Daemon, n: string) =>
  daemon
    .journal()
    .map(line => line.split(' '))
    .filter(([name]) => name === n)
    .map(([, ms]) => Number(ms))

const nowS = () => Date.now() / 1000

function start(spool: string, env: NodeJS.ProcessEnv = {}): Promise<Daemon> {
  return startDaemon({ spool, handler: HANDLER, ini: { 'spooler-frequency': 1, 'spooler-quiet': true }, env })
}

async function assertAsleep(daemon: Daemon): Promise<void> {
  const share = await cpuShare(daemon, WATCHED_MS)
  assert.ok(share < CPU_SHARE, `all processes worked ${Math.round(share * 100)} % of the time`)
}

describe('the time of a task', () => {
  it('is ignored if it is not a plain number or lies in the past, and postpones the task if it lies in the far future', async () => {
    const spool = spoolDirectory()
    const due = [
      '',
      'NaN',
      'Infinity',
      'soon',
      '-1',
      '-1e9',
      '1e18',
      '0x7fffffff',
      ' 9999999999',
      '0',
      '1.5',
      '.5',
      '१',
    ]
    const far = [`${YEAR_2038_S}`, `${10n ** 18n}`, '9'.repeat(400), `${nowS() + DAY_S}`, '9999999999.999']
    for (const [i, at] of due.entries()) drop(spool, `due-${i}`, packet({ n: `due-${i}`, at }))
    for (const [i, at] of far.entries()) drop(spool, `far-${i}`, packet({ n: `far-${i}`, at }))
    const ahead = [nowS() + DAY_S, YEAR_2038_S + 1, 4e9]
    for (const [i, mtime] of ahead.entries())
      drop(spool, `ahead-${i}`, packet({ n: `ahead-${i}`, at: '0' }), mtime)
    const daemon = await start(spool)
    await until('all due tasks have run', () => !leftIn(spool).some(name => name.startsWith('due')))
    await assertAsleep(daemon)
    assert.equal(daemon.journal().length, due.length)
    const { stdout } = await inProcess(['ls', spool])
    assert.doesNotMatch(stdout, /Infinity|NaN/)
    assert.match(stdout, / \d{7} d .* far-2$/m)
    assert.equal(leftIn(spool).length, far.length + ahead.length)
    // An operator changes the time of a task.
    utimesSync(join(spool, 'ahead-2'), 0, 0)
    await until('the changed task runs', () => ranAt(daemon, 'ahead-2').length === 1)
  })

  it('never lets a task run early, in the packet or in the mtime, with a fraction or without', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool)
    const times = new Map<string, number>()
    for (let i = 0; i < 12; i++) {
      const at = nowS() + 1 + Math.random() * 2
      const n = basename(
        i % 2 === 0
          ? drop(spool, `at-${i}`, packet({ n: `at-${i}`, at: String(at) }))
          : drop(spool, `mtime-${i}`, packet({ n: `mtime-${i}` }), Math.floor(at)),
      )
      times.set(n, i % 2 === 0 ? at : Math.floor(at))
    }
    await until('all tasks have run', () => leftIn(spool).length === 0)
    for (const [n, at] of times) {
      const [ran = 0] = ranAt(daemon, n)
      // The two clocks are compared to the millisecond, and drift.
      assert.ok(ran >= at * 1000 - 5, `${n} ran ${at * 1000 - ran} ms early`)
      assert.ok(ran < at * 1000 + 5000, `${n} ran ${ran - at * 1000} ms late`)
    }
  })
})

describe('a clock that jumps', () => {
  async function setUp() {
    const spool = spoolDirectory()
    const { env, jump } = movableClock()
    const daemon = await start(spool, env)
    return { spool, daemon, jump }
  }

  it('a day ahead lets tasks that came due by it run soon', async () => {
    const { spool, daemon, jump } = await setUp()
    drop(spool, 'soon', packet({ n: 'soon', at: String(nowS() + DAY_S / 2) }))
    drop(spool, 'mtime', packet({ n: 'mtime' }), nowS() + DAY_S / 2)
    drop(spool, 'later', packet({ n: 'later', at: String(nowS() + 3 * DAY_S) }))
    await setTimeout(300) // meanwhile the tasks are seen, and wait
    jump(DAY_S)
    await until('the due tasks have run', () => leftIn(spool).length === 1, 8000)
    await assertAsleep(daemon)
    assert.deepEqual(leftIn(spool), ['later'])
  })

  it('a day back makes new tasks wait, with no process busy, until the clock is right again', async () => {
    const { spool, daemon, jump } = await setUp()
    jump(-DAY_S)
    await setTimeout(100) // meanwhile the processes look at their clock
    for (const n of ['one', 'two', 'three']) drop(spool, n, packet({ n }))
    await assertAsleep(daemon)
    assert.deepEqual(daemon.journal(), [])
    jump(0)
    await until('all tasks have run', () => leftIn(spool).length === 0, 8000)
  })

  it('past 2038 lets tasks and retries run, each retry a second later, with no process busy', async () => {
    const { spool, daemon, jump } = await setUp()
    jump(YEAR_2038_S + 1000 - nowS())
    await setTimeout(100)
    drop(spool, 'again', packet({ n: 'again', again: 'yes' }))
    drop(spool, 'at', packet({ n: 'at', at: String(YEAR_2038_S + 999) }))
    drop(spool, 'future', packet({ n: 'future', at: String(YEAR_2038_S + 5000) }))
    await until('the due tasks have run', () => leftIn(spool).length === 1, 8000)
    const [first = 0, second = 0] = ranAt(daemon, 'again')
    assert.ok(second - first >= 995, `the retry waited ${second - first} ms`)
    await assertAsleep(daemon)
    assert.deepEqual(leftIn(spool), ['future'])
  })
})

describe('a task that runs with spooler-lock = lockfile', () => {
  const GATED = `
    import { existsSync } from 'node:fs'
    import { setTimeout } from 'node:timers/promises'
    export default async (env, task) => {
      JOURNAL(env.n)
      while (env.gate !== undefined && !existsSync(env.gate)) await setTimeout(20)
      return task.SPOOL_OK
    }`

  for (const [whose, holderS, observerS] of [
    ['of another daemon is an hour ahead', 0, 3600],
    ['of its own daemon is set back by an hour', -3600, 0],
    ['of its own daemon is set an hour ahead', 3600, 0],
  ] as const)
    it(`runs once although the clock ${whose}`, async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      const [holder, observer] = [movableClock(), movableClock()]
      observer.jump(observerS)
      const setup = { spool, handler: GATED, ini: { 'spooler-lock': 'lockfile', 'spooler-frequency': 1 } }
      const one = await startDaemon({ ...setup, env: holder.env })
      drop(spool, 'long', packet({ n: 'long', gate }))
      await until('the task runs', () => one.journal().length === 1)
      holder.jump(holderS)
      const locks = join(spool, '.spoold/locks')
      const leaseS = () =>
        Math.max(...readdirSync(locks).map(name => statSync(join(locks, name)).mtimeMs)) / 1000
      await until(
        'the lease has the time of the moved clock',
        () => Math.abs(leaseS() - nowS() - holderS) < 60,
        30_000,
      )
      const other = await startDaemon({ ...setup, env: observer.env })
      drop(spool, 'other', packet({ n: 'other' }))
      await until('the other daemon has looked at both tasks', () => one.journal().includes('other'))
      assert.deepEqual(one.journal(), ['long', 'other'])
      writeFileSync(gate, '')
      await until('all tasks are over', () => leftIn(spool).length === 0)
      assert.ok(one.isRunning && other.isRunning)
      assert.deepEqual(one.journal(), ['long', 'other'])
    })
})
