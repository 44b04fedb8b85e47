import assert from 'node:assert/strict'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { look } from '#src/doors/cli/top/source.js'
import { askDaemon } from '#src/engines/control/client.js'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import type { ScheduleSnapshot } from '#src/runtime/stats/snapshot.js'
import { spoold } from '../helpers/cli.js'
import { controlOf, snapshotOf } from '../helpers/control.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { journaled, withSignals } from '../helpers/signals.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const SIGNALS = [1, 2, 3].map(n => `registerSignal(${n}, 'spooler', () => JOURNAL('${n}'))`).join('\n')
const TICK = (options: string, body = '') => `import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('tick', ${options}, async () => { JOURNAL('tick'); ${body} })`

/** Runs `spoold schedules` and returns what it prints. */
async function schedules(spool: string, ...args: string[]) {
  const { code, stdout, stderr } = await spoold(['schedules', spool, ...args])
  return { code, said: `${stdout}${stderr}`.trim() }
}

async function schedulesOf(spool: string, name?: string): Promise<readonly ScheduleSnapshot[]> {
  return (await snapshotOf(spool, name)).schedules
}

async function only(spool: string): Promise<ScheduleSnapshot> {
  const [first, another] = await schedulesOf(spool)
  assert.equal(another, undefined)
  return first ?? assert.fail('nothing is scheduled')
}

async function stop(daemon: Daemon): Promise<void> {
  daemon.child.kill('SIGTERM')
  await daemon.exited
}

const ticks = (daemon: Daemon) => daemon.journal().filter(line => line === 'tick').length

describe('a schedule', { concurrency: 3 }, () => {
  it('runs at once by hand, and keeps its next time', async () => {
    const spool = spoolDirectory()
    const daemon = await withSignals(SIGNALS, { spool, ini: { timer: '1 3600' } })
    const { id, nextAtMs, origin } = await only(spool)
    assert.equal(origin, 'configuration')
    assert.deepEqual(await schedules(spool, '--run', id), {
      code: 0,
      said: `${spool}: ${id}: signal 1 is raised`,
    })
    await journaled(daemon, /^1$/, 1)
    const { nextAtMs: after } = await only(spool)
    assert.ok(Math.abs((after ?? 0) - (nextAtMs ?? 0)) < 100, 'the next regular time stays')
    const [announced] = readAudit(spool, 1)
    assert.deepEqual(
      [announced?.action, announced?.filter],
      ['run-schedule', JSON.stringify({ schedule: id })],
    )
    await daemon.waitFor(/run of signal 1 \(every 3600 s\) by a control client: signal 1 is raised/)
  })

  it('that is paused fires in no daemon, over a reload and a restart, until it is resumed', async () => {
    const spool = spoolDirectory()
    const setup = { spool, ini: { timer: ['1 0.1', '2 0.1'] } }
    const first = await withSignals(SIGNALS, setup)
    await journaled(first, /^1$/, 1)
    const one = (await schedulesOf(spool)).find(
      ({ schedule }) => schedule.kind === 'timer' && schedule.number === 1,
    )
    const id = one?.id ?? assert.fail()
    assert.deepEqual(await schedules(spool, '--pause', id), {
      code: 0,
      said: `${spool}: ${id}: paused, until it is resumed`,
    })
    /** True if this timer did not fire while the other one fired more than ten times. */
    const isSilent = async (daemon: Daemon) => {
      const before = daemon.journal()
      const count = (lines: readonly string[], line: string) => lines.filter(each => each === line).length
      await until('the other timer fires', () => count(daemon.journal(), '2') > count(before, '2') + 10)
      return count(daemon.journal(), '1') === count(before, '1')
    }
    await isSilent(first) // what had been raised before has run
    assert.ok(await isSilent(first))
    first.child.kill('SIGHUP')
    await first.waitFor(/another configuration|reloaded|gracefully reload/i)
    assert.ok(await isSilent(first))
    const second = await withSignals(SIGNALS, setup)
    await stop(first)
    await journaled(second, /^2$/, 1)
    assert.ok(await isSilent(second))
    const listed = await schedules(spool)
    assert.match(listed.said, new RegExp(`^${id} +paused +configuration +every 100 ms +signal 1$`, 'm'))
    assert.deepEqual(await schedules(spool, '--resume', id), { code: 0, said: `${spool}: ${id}: resumed` })
    await journaled(second, /^1$/, 1)
    assert.deepEqual(leftIn(join(spool, '.spoold/periodic')), [])
  })

  it('of a configuration or of loaded code cannot be removed, and the error says what to do instead', async () => {
    const spool = spoolDirectory()
    await withSignals(`${SIGNALS}\nspoold.addTimer(2, 3600)`, { spool, ini: { cron: '0 3 -1 -1 -1 true' } })
    const all = await until('both schedules are known', async () => {
      const found = await schedulesOf(spool)
      return found.length === 2 ? found : undefined
    })
    for (const { id, origin } of all) {
      const { code, said } = await schedules(spool, '--remove', id)
      assert.equal(code, 1)
      assert.match(said, new RegExp(`the ${origin} (?:has|have) it: pause it until that changes`))
    }
    assert.equal((await schedulesOf(spool)).length, 2)
  })

  it('is shown in top as the command lists it: from where it is, and in which time zone', async () => {
    const spool = spoolDirectory()
    await withSignals(SIGNALS, {
      spool,
      ini: { cron: '0 3 1 1 -1 true' },
      env: { ...process.env, TZ: 'Asia/Tokyo' },
    })
    const { id } = await only(spool)
    const { said } = await schedules(spool)
    const { rows } = await look({ spool, tab: 'schedules', filter: '', daemons: {} })
    const [row = assert.fail()] = rows
    assert.deepEqual(row.cells.slice(1), ['configuration', '0 3 1 1 -1 (Asia/Tokyo)', 'command true'])
    assert.equal(said.split('\n').at(-1)?.replace(/ {2,}/g, ' '), [id, ...row.cells].join(' '))
  })

  it('that runs a command runs it at once by hand, unless it is unique and still runs', async () => {
    const spool = spoolDirectory()
    const release = join(dirname(spool), 'release')
    const command = `touch ${spool}/.ran; until [ -e ${release} ]; do sleep 0.05; done`
    const daemon = await withSignals(SIGNALS, { spool, ini: { 'unique-cron': `0 3 1 1 -1 ${command}` } })
    const { id } = await only(spool)
    assert.equal((await schedules(spool, '--run', id)).said, `${spool}: ${id}: the command is started`)
    await daemon.waitFor(/\[uwsgi-cron\] running "touch/)
    assert.match((await schedules(spool, '--run', id)).said, /its last run has not ended, and it is unique/)
    const { execFileSync } = await import('node:child_process')
    execFileSync('touch', [release])
    await daemon.waitFor(/exited after \d+ second/)
  })

  it('that code has added while it ran can be removed, and paused unless it ends by itself', async () => {
    const spool = spoolDirectory()
    const daemon = await withSignals(
      `registerSignal(1, 'spooler', () => { JOURNAL('1'); spoold.addTimer(2, 3600); spoold.addRbTimer(3, 3600, 1) })
      registerSignal(2, 'spooler', () => JOURNAL('2'))\nregisterSignal(3, 'spooler', () => {})`,
      { spool, ini: { timer: '1 3600' } },
    )
    await schedules(spool, '--run', (await only(spool)).id)
    const added = await until('two more schedules are known', async () => {
      const found = (await schedulesOf(spool)).filter(({ origin }) => origin === 'code')
      return found.length === 2 ? found : undefined
    })
    const [lasting, passing] = [0, 1].map(
      iterations =>
        added.find(({ schedule }) => schedule.kind === 'timer' && schedule.iterations === iterations)?.id ??
        '',
    ) as [string, string]
    assert.match((await schedules(spool, '--pause', passing)).said, /it ends by itself: remove it instead/)
    assert.equal((await schedules(spool, '--pause', lasting)).code, 0)
    for (const id of [lasting, passing])
      assert.match((await schedules(spool, '--remove', id)).said, /: removed$/)
    assert.equal((await schedulesOf(spool)).length, 1)
    assert.deepEqual(leftIn(join(spool, '.spoold/periodic')), [], 'its pause is removed too')
    assert.equal(daemon.journal().includes('2'), false)
  })

  it('can be changed by operators alone, who name one that exists', async () => {
    const spool = spoolDirectory()
    const view = join(dirname(spool), 'view.sock')
    await withSignals(SIGNALS, { spool, ini: { timer: '1 3600', 'spooler-control': `${view},role=viewer` } })
    const { id } = await only(spool)
    for (const verb of ['run', 'pause', 'resume', 'remove'])
      await assert.rejects(askDaemon(view, verb, { spool, schedule: id }), /is for operators/)
    await assert.rejects(
      askDaemon(controlOf(spool), 'run', { spool, schedule: 'no' }),
      /has no schedule no in/,
    )
    await assert.rejects(askDaemon(controlOf(spool), 'run', { spool: '/', schedule: id }), /has no schedule/)
    assert.equal((await only(spool)).pausedSinceMs, null)
    assert.equal((await schedules(spool, '--run', 'no')).code, 1)
  })
})

describe('a periodic task', { concurrency: 3 }, () => {
  const start = (handler: string, spool: string) => startDaemon({ spool, handler })
  const known = (spool: string) =>
    until('the time of the next run is known', async () => {
      const [found] = await schedulesOf(spool)
      return found?.nextAtMs ? found : undefined
    })

  it('is stored at once by hand, and keeps its next time', async () => {
    const spool = spoolDirectory()
    const daemon = await start(TICK('{ periodicity: 3600 }'), spool)
    const { nextAtMs } = await known(spool)
    assert.match((await schedules(spool, '--run', 'tick')).said, /: tick: stored as uwsgi_spoolfile_on_/)
    await until('the task has run', () => ticks(daemon) === 1)
    assert.ok(Math.abs(((await known(spool)).nextAtMs ?? 0) - (nextAtMs ?? 0)) < 100)
    assert.equal((await schedules(spool, '--run', 'tick')).code, 0)
    await until('the task has run again', () => ticks(daemon) === 2)
  })

  it('is not stored by hand while it runs, unless it has overlap: true', async () => {
    const body = 'await new Promise(resolve => setTimeout(resolve, 600_000))'
    const results = await Promise.all(
      ['{ periodicity: 3600 }', '{ periodicity: 3600, overlap: true }'].map(async options => {
        const spool = spoolDirectory()
        const daemon = await start(TICK(options, body), spool)
        await known(spool)
        await schedules(spool, '--run', 'tick')
        await until('the task runs', () => ticks(daemon) === 1)
        return schedules(spool, '--run', 'tick')
      }),
    )
    assert.match(
      results[0]?.said ?? '',
      /its last run, uwsgi_spoolfile_on_\S+, has not ended, and it does not overlap/,
    )
    assert.match(results[1]?.said ?? '', /: tick: stored as/)
  })

  it('that is paused is not stored, even after a restart, and what it missed is not made up for', async () => {
    const spool = spoolDirectory()
    const handler = `${TICK('{ periodicity: 1 }')}\ntasks.task('tock', { periodicity: 1 }, () => JOURNAL('tock'))`
    const tocks = (daemon: Daemon) => daemon.journal().filter(line => line === 'tock').length
    const first = await start(handler, spool)
    await until('both tasks have run', () => ticks(first) > 0 && tocks(first) > 0)
    assert.equal((await schedules(spool, '--pause', 'tick')).code, 0)
    const [before, then] = [ticks(first), tocks(first)]
    await until('the other task goes on', () => tocks(first) >= then + 3)
    assert.ok(ticks(first) <= before + 1, 'at most one run had begun already')
    const status = await spoold(['status', spool])
    assert.match(status.stdout, /tick paused/)
    await stop(first)
    const stopped = { ticks: ticks(first), tocks: tocks(first) }
    const second = await start(handler, spool)
    await until('the other task goes on', () => tocks(second) >= stopped.tocks + 3)
    assert.equal(ticks(second), stopped.ticks)
    const resumed = Date.now()
    await schedules(spool, '--resume', 'tick')
    await until('the resumed task goes on', () => ticks(second) >= stopped.ticks + 2)
    assert.ok(Date.now() - resumed > 900, 'a period later, and not twice at once')
  })

  it('that is paused can still be run by hand', async () => {
    const spool = spoolDirectory()
    const daemon = await start(TICK('{ periodicity: 3600 }'), spool)
    await known(spool)
    await schedules(spool, '--pause', 'tick')
    assert.equal((await schedules(spool, '--run', 'tick')).code, 0)
    await until('the task has run', () => ticks(daemon) === 1)
  })
})
