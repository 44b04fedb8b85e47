import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { type DaemonSetup, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const IDLE = { idle: 0.3, 'die-on-idle': true, 'spooler-frequency': 1 }
const LATER = { at: '9999999999' }
/** A longer idle time, because the daemon looks once per second. */
const LATER_IDLE = { ...IDLE, idle: 1.5 }

const start = (setup: Partial<DaemonSetup> = {}) => {
  const spool = setup.spool ?? spoolDirectory()
  return startDaemon({ ...setup, spool, ini: { ...IDLE, ...setup.ini } })
}

describe('die-on-idle', () => {
  it('ends a daemon that has run all tasks, with exit code 0', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a', packet({}))
    const daemon = await start({ spool })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal(), ['a'])
    assert.match(daemon.output, /\*\*\* nothing to do for 300 ms: stopping \(die-on-idle\) \*\*\*/)
  })

  it('ends no daemon that has a running, later or held task, or a schedule', async () => {
    const running = spoolDirectory()
    drop(running, 'a', packet({}))
    const slow =
      'export default async () => { JOURNAL("a"); await new Promise(() => setInterval(() => {}, 1000)) }'
    const waiting = spoolDirectory()
    drop(waiting, 'a', packet(LATER))
    const held = spoolDirectory()
    drop(held, 'a', packet({}))
    assert.equal((await spoold(['hold', '--all', held])).code, 0)
    const daemons = await Promise.all([
      start({ spool: running, handler: slow }),
      start({ spool: waiting }),
      start({ spool: held }),
      start({ ini: { timer: '1 3600' } }),
    ])
    const empty = await start({ ini: LATER_IDLE })
    assert.equal(await empty.code(), 0)
    assert.deepEqual(
      daemons.map(({ isRunning }) => isRunning),
      [true, true, true, true],
    )
    assert.equal((await spoold(['rm', '--all', waiting])).code, 0)
    assert.equal(await daemons[1]?.code(), 0)
    assert.deepEqual(leftIn(held), ['a'])
  })

  it('ends a daemon that has run a task after a reload to a shorter idle', async () => {
    const spool = spoolDirectory()
    const daemon = await start({ spool, ini: { idle: 600 } })
    drop(spool, 'a', packet({}))
    await until('the task has run', () => daemon.journal().length > 0)
    writeIni(daemon.iniFile, { spooler: spool, 'spooler-import': daemon.handlerFile, ...IDLE })
    daemon.child.kill('SIGHUP')
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /nothing to do/)
  })

  it('without idle causes a warning, and ends no daemon', async () => {
    const daemon = await start({ ini: { idle: 0 } })
    assert.match(daemon.output, /die-on-idle: expected idle = SECONDS with it, got none/)
    const other = await start({ ini: LATER_IDLE })
    assert.equal(await other.code(), 0)
    assert.ok(daemon.isRunning)
  })
})
