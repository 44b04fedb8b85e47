import assert from 'node:assert/strict'
import { mkdirSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { byteOf, listed, recordOf, secondsOf, stateOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const nowSeconds = () => Math.floor(Date.now() / 1000)
const IN_A_YEAR = nowSeconds() + 31_536_000

async function done(...args: string[]): Promise<void> {
  assert.deepEqual(await inProcess([...args, '--quiet']), {
    code: 0,
    stdout: '',
    stderr: '',
  })
}

/** Waits until the daemon has run a sentinel: then it has seen all that was there before, and left it. */
async function hasLookedAround(daemon: Daemon, spool: string): Promise<void> {
  const name = `uwsgi_spoolfile_on_sentinel_${daemon.journal().length}_${Math.random()}`
  drop(spool, name)
  await until('the sentinel has run', () => daemon.journal().some(line => line.startsWith(name)))
  await until('the sentinel is removed', () => !leftIn(spool).includes(name))
}

const FIRST_FAILS = `export default (env, task) => {
  JOURNAL(task.name + ' ' + task.attempt)
  if (env.fails && task.attempt === 1) throw new Error('not yet')
  return task.SPOOL_OK
}`

describe('spoold hold', () => {
  it('keeps a due task from running until it is released', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    const before = statSync(path)
    await done('hold', path)
    assert.ok(secondsOf(path) > 2 ** 31)
    assert.equal(byteOf(path), 0x01)
    assert.equal(recordOf(spool, NAME).heldMtime, before.mtimeMs)
    assert.equal(await stateOf(spool, NAME), 'held')
    const daemon = await startDaemon({ spool, handler: FIRST_FAILS })
    await hasLookedAround(daemon, spool)
    assert.deepEqual(leftIn(spool), [NAME])
    await done('release', path)
    await until('the task has run', () => daemon.journal().includes(`${NAME} 1`))
    await until('no record is left', () => leftIn(join(spool, '.spoold/records')).length === 0)
  })

  it('does not depend on the mtime alone: touch does not end it', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    await done('hold', path)
    utimesSync(path, 1, 1)
    const daemon = await startDaemon({ spool, handler: FIRST_FAILS })
    await hasLookedAround(daemon, spool)
    assert.deepEqual(leftIn(spool), [NAME])
    assert.equal(await stateOf(spool, NAME), 'held')
  })

  it('followed by release leaves a task that waits for a retry as it was, with its attempts', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: FIRST_FAILS, ini: { 'spooler-retry-delay': 3600 } })
    const path = drop(spool, NAME, packet({ fails: '1' }))
    await until('the task waits for its retry', async () => (await stateOf(spool, NAME)) === 'retrying')
    const [before, record] = [statSync(path), recordOf(spool, NAME)]
    await done('hold', path)
    await done('hold', path) // a second hold changes nothing
    assert.equal(await stateOf(spool, NAME), 'held')
    await done('release', path)
    await hasLookedAround(daemon, spool)
    assert.equal(await stateOf(spool, NAME), 'retrying')
    assert.ok(Math.abs(statSync(path).mtimeMs - before.mtimeMs) < 1) // microseconds are all that can be set
    const after = recordOf(spool, NAME)
    assert.ok(Math.abs(after.nextRunAt - record.nextRunAt) < 1)
    assert.deepEqual({ ...after, nextRunAt: 0 }, { ...record, nextRunAt: 0 })
  })

  it('refuses a running task, as kick, rm and release do, and the task runs on', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: `export default async (env, task) => {
        JOURNAL(task.name)
        await new Promise(resolve => process.once('SIGUSR2', resolve))
        return task.SPOOL_OK
      }`,
    })
    const path = drop(spool, NAME)
    await until('the task runs', () => daemon.journal().includes(NAME))
    for (const command of ['hold', 'kick', 'rm', 'release'])
      assert.deepEqual(await inProcess([command, path]), {
        code: 1,
        stdout: '',
        stderr: `spoold: ${path} is running; it was left alone\n`,
      })
    const [pid] = daemon.workers()
    const row = (await listed(spool)).get(NAME)
    assert.deepEqual([row.state, row.pid], ['running', pid])
    await until(
      'ls knows when the run started',
      async () => (await listed(spool)).get(NAME).started !== undefined,
    )
    assert.match(
      (await inProcess(['ls', spool])).stdout,
      new RegExp(`^running .* ${NAME} +pid ${pid}, for \\d+ s$`, 'm'),
    )
    assert.match(
      (await inProcess(['show', path])).stdout,
      new RegExp(`: running by process ${pid} since \\d{4}-`),
    )
    for (const each of daemon.workers()) process.kill(each, 'SIGUSR2')
    await until('the task is done', () => leftIn(spool).length === 0)
  })
})

describe('spoold kick', () => {
  it('runs at once a task that waits for a retry, for its `at` or for its mtime, or that is held', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: FIRST_FAILS, ini: { 'spooler-frequency': 3600 } })
    const retried = drop(spool, 'uwsgi_spoolfile_on_retried', packet({ fails: '1' }))
    const at = drop(spool, 'uwsgi_spoolfile_on_at', packet({ at: String(IN_A_YEAR) }))
    const timed = drop(spool, 'uwsgi_spoolfile_on_timed', packet({ at: String(IN_A_YEAR) }), IN_A_YEAR)
    const held = drop(spool, 'uwsgi_spoolfile_on_held', packet({ at: String(IN_A_YEAR) }))
    await until(
      'the first task has failed',
      async () => (await stateOf(spool, 'uwsgi_spoolfile_on_retried')) === 'retrying',
    )
    await done('hold', held)
    await hasLookedAround(daemon, spool)
    const waiting = (await inProcess(['ls', '--state', 'waiting,retrying,held', '--json', spool])).stdout
    assert.equal(waiting.trimEnd().split('\n').length, 4)
    for (const path of [retried, at, timed, held]) await done('kick', path)
    await until('all tasks have run', () => leftIn(spool).length === 0, 5000)
    for (const run of ['retried 2', 'at 1', 'timed 1', 'held 1'])
      assert.ok(daemon.journal().includes(`uwsgi_spoolfile_on_${run}`), run)
    await until('no record is left', () => leftIn(join(spool, '.spoold/records')).length === 0)
  })

  it('makes the task due in what ls and show print', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, packet({ at: String(IN_A_YEAR) }), IN_A_YEAR)
    assert.equal(await stateOf(spool, NAME), 'waiting')
    await done('kick', path)
    assert.equal(byteOf(path), 0x08)
    assert.equal(await stateOf(spool, NAME), 'due')
    assert.match((await inProcess(['show', path])).stdout, /: due, due /)
  })

  it('takes all tasks of a spool that fit the filters, and prints what it did', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    drop(spool, 'a', packet({ to: 'joe' }), IN_A_YEAR)
    drop(spool, 'b', packet({ to: 'jim' }), IN_A_YEAR)
    drop(spool, '5/c', packet({ to: 'joe' }), IN_A_YEAR)
    const dry = await inProcess(['kick', '--key', 'to=joe', '--dry-run', spool])
    assert.deepEqual(dry.stdout.split('\n').sort(), ['', `would kick ${spool}/5/c`, `would kick ${spool}/a`])
    assert.deepEqual(leftIn(join(spool, '.spoold')), [], 'a dry run creates nothing')
    assert.equal(await stateOf(spool, 'a'), 'waiting')
    const { code, stdout } = await inProcess(['kick', '--key', 'to=joe', '--json', spool])
    assert.equal(code, 0)
    const shown = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    assert.deepEqual(
      shown.sort((x, y) => (x.name < y.name ? -1 : 1)),
      ['5/c', 'a'].map(name => ({ command: 'kick', spooler: spool, name, result: 'done' })),
    )
    assert.deepEqual(
      [...(await listed(spool)).values()].map(({ name, state }) => [name, state]),
      [
        ['5/c', 'due'],
        ['a', 'due'],
        ['b', 'waiting'],
      ],
    )
  })
})
