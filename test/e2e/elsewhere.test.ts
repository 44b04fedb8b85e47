import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { libcFault } from '#src/system/libc.js'
import { spoold } from '../helpers/cli.js'
import { type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { withoutKoffi } from '../helpers/elsewhere.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HANDLER = `
import { readFileSync } from 'node:fs'
export default async (env, task) => {
  JOURNAL(JSON.stringify([env.n, task.attempt, readFileSync('/proc/self/maps', 'latin1').includes('koffi')]))
  if (env.ms) await new Promise(resolve => setTimeout(resolve, Number(env.ms)))
  if (env.bury) return { bury: 'so' }
  return task.attempt < Number(env.attempts ?? 1) ? { retry: true, delay: 0 } : task.SPOOL_OK
}`

function start(spool: string, setup: Partial<DaemonSetup> = {}) {
  const ini = { 'spooler-ordered': true, 'spooler-frequency': 1, 'spooler-processes': 2, ...setup.ini }
  return startDaemon({ spool, handler: HANDLER, ...setup, ini, env: { ...withoutKoffi(), ...setup.env } })
}

const stop = async (daemon: Awaited<ReturnType<typeof startDaemon>>) => {
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
}

const formatOf = (spool: string) => readFileSync(join(spool, '.spoold/format'), 'utf8')

describe('a daemon that cannot call libc', {
  skip: libcFault() !== undefined && 'it cannot be called here',
}, () => {
  it('runs each task in one process at a time, under leases, and logs what that means', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const daemon = await start(spool)
    await daemon.waitFor(
      /claims with lease files \(spooler-lock = lockfile\), which uWSGI does not see: koffi is not installed: .*; no daemon may claim with record locks there, either/,
    )
    for (let n = 0; n < 40; n++) drop(spool, `uwsgi_spoolfile_on_x_${n}`, packet({ n: String(n), ms: '5' }))
    drop(spool, '5/urgent', packet({ n: 'urgent' }))
    drop(spool, 'again', packet({ n: 'again', attempts: '3' }))
    drop(spool, 'dead', packet({ n: 'dead', bury: 'yes' }))
    drop(spool, '\xfcml', packet({ n: 'bytes' }))
    await until('all tasks are settled', () =>
      leftIn(spool).every(name => name.startsWith('.') || name === '5'),
    )
    const runs = daemon.journal().map(line => JSON.parse(line) as [string, number, boolean])
    const names = [...Array.from({ length: 40 }, (_, n) => String(n)), 'again', 'bytes', 'dead', 'urgent']
    assert.deepEqual([...new Set(runs.map(([n]) => n))].sort(), names.sort())
    assert.equal(runs.length, names.length + 2, 'each once, and one three times')
    assert.ok(runs.every(([, , hasKoffi]) => !hasKoffi))
    assert.deepEqual([...(await deadOf(spool)).keys()], ['dead'])
    assert.deepEqual(formatOf(spool), '2\nlocks lockfile\n')
    await stop(daemon)
    const { stdout, code } = await spoold(['ls', spool], { env: withoutKoffi() })
    assert.deepEqual([code, stdout.includes('again')], [0, false])
  })

  it('refuses to start with spooler-lock = ofd', async () => {
    const daemon = await start(spoolDirectory(), { ini: { 'spooler-lock': 'ofd' }, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /spooler-lock = ofd does not work in .*: koffi is not installed/)
  })

  it('refuses leases where a daemon has claimed with record locks, until an operator asks for them', async () => {
    const spool = spoolDirectory()
    const before = await startDaemon({ spool, handler: HANDLER })
    await before.waitFor(/claims with record locks/)
    await stop(before)
    assert.equal(formatOf(spool), '2\nlocks ofd\n')
    const refused = await start(spool, { isUnready: true })
    assert.equal(await refused.code(), 1)
    assert.match(
      refused.output,
      /are claimed with record locks \(\.spoold\/format says so\), which cannot be taken here: koffi is not installed/,
    )
    drop(spool, 'task', packet({ n: 'task' }))
    const command = await spoold(['rm', '--all', spool], { env: withoutKoffi() })
    assert.notEqual(command.code, 0)
    assert.match(command.stderr, /are claimed with record locks/)
    assert.deepEqual(
      leftIn(spool).filter(name => !name.startsWith('.')),
      ['task'],
    )
    const told = await start(spool, { ini: { 'spooler-lock': 'lockfile' } })
    await until('the task has run', () => told.journal().length === 1)
    assert.equal(formatOf(spool), '2\nlocks lockfile\n')
    await stop(told)
    await stop(await start(spool))
  })

  it('refuses leases beside a live daemon with record locks, even if .spoold/format is gone', async () => {
    const spool = spoolDirectory()
    const live = await startDaemon({ spool, handler: HANDLER })
    await live.waitFor(/claims with record locks/)
    rmSync(join(spool, '.spoold/format'))
    const refused = await start(spool, { isUnready: true })
    assert.equal(await refused.code(), 1)
    assert.match(refused.output, new RegExp(`are claimed with record locks \\(process ${live.pid}, `))
    await stop(live)
  })

  it('says what else is missing, and runs tasks', { skip: skipUnless('mkfifo') }, async () => {
    const spool = spoolDirectory()
    const fifo = join(dirname(spool), 'fifo')
    const setup = {
      ini: { 'master-fifo': fifo },
      env: { NOTIFY_SOCKET: join(dirname(spool), 'nobody') },
    }
    const refused = await start(spool, { ...setup, isUnready: true })
    assert.equal(await refused.code(), 1)
    assert.match(
      refused.output,
      /master-fifo .*fifo cannot be used: it cannot be made: koffi is not installed/,
    )
    execFileSync('mkfifo', [fifo])
    const daemon = await start(spool, setup)
    await daemon.waitFor(/unable to notify the service manager: koffi is not installed/)
    drop(spool, 'task', packet({ n: 'task' }))
    await until('the task has run', () => daemon.journal().length === 1)
    writeFileSync(fifo, 'q')
    assert.equal(await daemon.code(), 0)
  })
})
