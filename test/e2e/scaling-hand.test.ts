import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { checks, present, processesOf, put, ready, scaledTo, startScaled, stop } from '../helpers/adaptive.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('spoold scale', () => {
  it('sets the number of processes, which the algorithm leaves alone until auto', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { cheaper: 1, workers: 4, 'cheaper-overload': 1 })
    const scaled = await spoold(['scale', spool, '3'])
    assert.deepEqual([scaled.code, scaled.stderr], [0, ''])
    assert.match(
      scaled.stdout,
      new RegExp(`: process ${daemon.pid}: 3 processes, 3 present \\(by hand, until auto\\)\\n$`),
    )
    await until('the three processes are ready', async () => (await ready(spool)) === 3)
    await until('many checks have passed', checks(15))
    assert.equal(await present(spool), 3)
    assert.equal((await spoold(['scale', spool, '-1'])).code, 0)
    await until('the spool has two processes', () => daemon.workers().length === 2)
    assert.equal((await spoold(['scale', '--ini', daemon.iniFile, '+2'])).code, 0)
    await until('the spool has four processes', () => daemon.workers().length === 4)
    const { size } = await processesOf(spool)
    assert.deepEqual([size.isByHand, size.algorithm, size.reason], [true, 'spare', 'by hand'])
    const status = await spoold(['status', spool])
    assert.match(status.stdout, /workers +4 of 4, by hand, 1 to 4/)
    assert.equal((await spoold(['scale', spool, 'auto'])).code, 0)
    await until('the spool has one process', () => daemon.workers().length === 1)
    assert.equal((await processesOf(spool)).size.isByHand, false)
    await stop(daemon)
  })

  it('refuses a number out of range, a wish that is no number, and a spool without a daemon', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { cheaper: 1, workers: 4 })
    for (const [wish, expected] of [
      ['5', 'expected 1 to 4 processes, got 5'],
      ['-1', 'expected 1 to 4 processes, got 0'],
    ] as const) {
      const { code, stderr } = await spoold(['scale', spool, wish])
      assert.equal(code, 1)
      assert.match(stderr, new RegExp(expected))
    }
    const wrong = await spoold(['scale', spool, 'many'])
    assert.deepEqual(
      [wrong.code, /expected N, \+N, -N or auto at the end, got "many"/.test(wrong.stderr)],
      [64, true],
    )
    const other = await spoold(['scale', spoolDirectory(), '2'])
    assert.deepEqual([other.code, /no daemon runs it/.test(other.stderr)], [1, true])
    assert.deepEqual(scaledTo(daemon), [])
    await stop(daemon)
  })

  it('lets a process go that is still loading, and says so', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'hang')
    const daemon = await startDaemon({
      spool,
      handler: `
        import { existsSync } from 'node:fs'
        if (existsSync(${JSON.stringify(gate)})) await new Promise(resolve => setTimeout(resolve, 600_000))
        export default (env, task) => task.SPOOL_OK`,
      ini: { cheaper: 1, workers: 2, 'cheaper-algo': 'manual', 'log-format': 'json' },
    })
    put(spool, 1)
    await until('a task has run', () => leftIn(spool).length === 0)
    writeFileSync(gate, '')
    const [first] = daemon.workers()
    assert.equal((await spoold(['scale', spool, '2'])).code, 0)
    const loading = await until('one process loads', () => daemon.workers().find(pid => pid !== first))
    assert.equal((await spoold(['scale', spool, '1'])).code, 0)
    await until('the loading process is gone', () => daemon.workers().length === 1)
    const line = daemon.output.split('\n').find(each => each.includes('"worker-cheaped"'))
    const { msg, worker } = JSON.parse(line ?? '{}')
    assert.deepEqual([msg, worker], [`[spooler ${spool} pid: ${loading}] cheaped while it loaded`, loading])
    await stop(daemon)
    const log = join(dirname(spool), 'app.log')
    writeFileSync(log, daemon.output)
    const { stdout } = await spoold(['scaling', daemon.iniFile, '--from-log', log, '--json'])
    assert.equal(JSON.parse(stdout.split('\n', 1)[0] ?? '').tasks, 1, 'the simulation skips such lines')
  })

  it('keeps the number set by hand over a reload, within the new maximum', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { cheaper: 1, workers: 4 })
    assert.equal((await spoold(['scale', spool, '4'])).code, 0)
    await until('four processes are ready', async () => (await ready(spool)) === 4)
    execFileSync('sed', ['-i', 's/^workers = 4/workers = 3/', daemon.iniFile])
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('reloaded')
    await until(
      'the spool has three processes',
      async () => daemon.workers().length === 3 && (await present(spool)) === 3,
    )
    const { size } = await processesOf(spool)
    assert.deepEqual([size.isByHand, size.maximum], [true, 3])
    await stop(daemon)
  })
})

describe('+, - and C of the master FIFO', { skip: skipUnless('mkfifo') }, () => {
  it('add a process, let an idle one go, and let all go until there is a task', async () => {
    const spool = spoolDirectory()
    const fifo = join(dirname(spool), 'fifo')
    const daemon = await startScaled(spool, {
      cheaper: 1,
      workers: 4,
      'cheaper-algo': 'manual',
      'master-fifo': fifo,
    })
    writeFileSync(fifo, '+')
    await until('the spool has two processes', async () => (await ready(spool)) === 2)
    writeFileSync(fifo, '++++')
    await until('the spool has four processes', async () => (await ready(spool)) === 4)
    await until('the spool has no more processes', checks(10)) // letters that arrive between two checks are one sum: the last + is no part of it
    assert.deepEqual(scaledTo(daemon).at(-1), [3, 4])
    writeFileSync(fifo, '-')
    await until('the spool has three processes', () => daemon.workers().length === 3)
    writeFileSync(fifo, 'C')
    await until('the spool has no process', () => daemon.workers().length === 0)
    await daemon.waitFor(/cheaping spooler /)
    put(spool, 3)
    await until('the tasks have run', () => leftIn(spool).length === 0)
    assert.equal(await present(spool), 1)
    assert.doesNotMatch(daemon.output, /OOOPS|ignored/)
    await stop(daemon)
  })
})
