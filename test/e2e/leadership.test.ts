import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

/** In seconds. Longer than a lease lives after its holder, so at most one instant may fall in between. */
const EVERY_S = 10

const HANDLER = `
import { registerSignal } from ${JSON.stringify(join(ROOT, 'dist/index.js'))}
registerSignal(1, 'spooler', () => JOURNAL(Math.floor(Date.now() / 1000) + ' ' + process.ppid))
export default () => -2
`

const start = (spool: string, cron = `1 */${EVERY_S} * * * * *`) =>
  startDaemon({ spool, handler: HANDLER, ini: { 'signal-cron': cron } })

/** Returns the instants that were fired, and the process that fired each. */
const fired = (daemon: Daemon) =>
  daemon.journal().map(line => {
    const [second = 0, pid = 0] = line.split(' ').map(Number)
    return { instant: second - (second % EVERY_S), pid }
  })

/** A lease lives for five seconds, and a daemon without it asks for it every second. */
const TAKES_OVER_MS = 8000

const LEADS = 'this daemon fires the schedules'
const WAITS = 'another daemon fires the schedules; this one takes over when it is gone'

describe('several daemons on one spool', { concurrency: 3 }, () => {
  for (const [end, signal] of [
    ['is killed', 'SIGKILL'],
    ['stands still', 'SIGSTOP'],
  ] as const)
    it(`fire each instant once, and miss at most one when the daemon that fires ${end}`, async () => {
      const spool = spoolDirectory()
      const first = await start(spool)
      await first.waitFor(LEADS)
      const second = await start(spool)
      await second.waitFor(WAITS)
      await until('the first daemon has fired', () => fired(first).length > 0)
      const end = Date.now()
      first.child.kill(signal)
      await second.waitFor(LEADS, TAKES_OVER_MS)
      const takenOver = Date.now()
      await until('the second daemon has fired', () => fired(second).some(({ pid }) => pid === second.pid))
      if (signal === 'SIGSTOP') {
        first.child.kill('SIGCONT')
        await first.waitFor(WAITS, TAKES_OVER_MS)
        const count = fired(first).length
        await until('the first or the second daemon has fired', () => fired(first).length > count)
      }
      const instants = fired(first).map(({ instant }) => instant)
      assert.equal(new Set(instants).size, instants.length, String(instants))
      // No daemon leads in this time; an instant itself may be late by a second on a busy machine.
      const mayMiss = (instant: number) => instant > end / 1000 - 1 && instant < takenOver / 1000 + 1
      const [begin = 0, last = 0] = [instants[0], instants.at(-1)]
      for (let instant = begin; instant <= last; instant += EVERY_S)
        assert.ok(instants.includes(instant) || mayMiss(instant), `${instant} is missing: ${instants}`)
    })

  it('hand the lease over at once when the daemon that holds it stops', async () => {
    const spool = spoolDirectory()
    const first = await start(spool)
    await first.waitFor(LEADS)
    const second = await start(spool)
    await second.waitFor(WAITS)
    first.child.kill('SIGTERM')
    await second.waitFor(LEADS, TAKES_OVER_MS / 2)
    assert.equal(await first.code(), 0)
  })

  it('leave no lease behind when there is nothing to fire', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    assert.ok(!existsSync(join(spool, '.spoold/locks')))
    daemon.child.kill('SIGTERM')
    await daemon.code()
  })

  it('fire nothing while the lease is unavailable, and say so', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold'))
    writeFileSync(join(spool, '.spoold/locks'), '')
    const daemon = await start(spool, '1 * * * * * *')
    await daemon.waitFor(
      `[spooler ${spool}] no schedule fires, because the lease is unavailable: ${join(spool, '.spoold/locks')} is not a directory`,
    )
    assert.deepEqual(fired(daemon), [])
    rmSync(join(spool, '.spoold/locks'))
    await until('the daemon has fired', () => fired(daemon).length > 0)
  })

  it('take over the lease of a dead daemon although its time is in an hour, because the clock was set back', async () => {
    const spool = spoolDirectory()
    const lease = join(spool, '.spoold/locks/schedules.lock')
    mkdirSync(lease, { recursive: true })
    const inAnHour = Date.now() / 1000 + 3600
    utimesSync(lease, inAnHour, inAnHour)
    const daemon = await start(spool, '1 * * * * * *')
    await daemon.waitFor(LEADS, TAKES_OVER_MS)
    await until('the daemon has fired', () => fired(daemon).length > 0)
  })

  it('share the directory of leases with their workers when only the workers leave root', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o777)
    rmdirSync(spool)
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      ini: { timer: '1 0.1', uid: 65534, gid: 65534, 'master-as-root': true, 'spooler-lock': 'lockfile' },
    })
    await daemon.waitFor(LEADS)
    assert.equal(statSync(join(spool, '.spoold/locks')).uid, 65534)
    await until('the timer has fired', () => daemon.journal().length > 0)
  })

  it('do not wait for each other when their signals go to spools of their own', async () => {
    const [mine, shared] = [spoolDirectory(), spoolDirectory()]
    const leader = await start(shared)
    await leader.waitFor(LEADS)
    const daemon = await startDaemon({
      spool: mine,
      handler: HANDLER.replace("'spooler'", JSON.stringify(mine)),
      ini: { spooler: [shared, mine], 'signal-cron': '1 * * * * * *' },
    })
    await daemon.waitFor(`[spooler ${mine}] ${LEADS}`)
    await until('the daemon has fired', () => daemon.journal().length > 1)
    assert.ok(existsSync(join(mine, '.spoold/locks/schedules.lock')))
    assert.equal(dirname(daemon.iniFile), dirname(mine))
  })
})
