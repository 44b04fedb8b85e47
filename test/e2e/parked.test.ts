import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { askParked } from '#src/engines/control/parked-tasks.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HANDLER = `
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('few', { maxConcurrency: 1, maxRetries: 9 }, () => new Promise(() => {}))
tasks.task('blocked', () => new Promise(() => {}))
`
const call = (task: string) => packet({ task, args: '[]' })

const start = (spool: string, setup: Partial<DaemonSetup> = {}) =>
  startDaemon({
    spool,
    handler: HANDLER,
    ...setup,
    ini: { 'spooler-concurrency': 3, 'worker-reload-mercy': 1, ...setup.ini },
  })

const parked = async (spool: string, reasons: object) => {
  const are = async () => {
    const { tasks } = await spoolSnapshotOf(spool)
    return Object.entries(reasons).every(([reason, count]) => Object(tasks.parked)[reason] === count)
  }
  await until('the tasks are parked', are, 20_000)
}

async function ls(spool: string, ...args: string[]) {
  const { stdout, stderr, code } = await spoold(['ls', '--json', ...args, spool])
  assert.equal(code, 0, stderr)
  const rows = stdout
    .trim()
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))
  return Object.fromEntries(rows.map(({ name, state, parked: why }) => [name, why?.reason ?? state]))
}

describe('parked tasks', () => {
  it('are listed with the reason that their daemon gives', async () => {
    const spool = spoolDirectory()
    await spoold(['pause', '--key', 'kind=report', spool])
    const begunBeside = call('blocked')
    begunBeside[3] = 0x84 // begun beside others, in a process that died
    for (const name of ['alone-1', 'alone-2']) drop(spool, name, begunBeside)
    await start(spool)
    await until('one task runs alone', async () => (await spoolSnapshotOf(spool)).tasks.running === 1)
    drop(spool, 'few-1', call('few'))
    await until('few-1 has the slot', async () => (await spoolSnapshotOf(spool)).tasks.running === 2)
    drop(spool, 'few-2', call('few'))
    drop(spool, 'lost', call('no.such\x1bname'))
    drop(spool, 'report', packet({ kind: 'report' }))
    drop(spool, 'later', packet({ n: '2' }), 4_000_000_000)
    await parked(spool, { slot: 1, 'unknown-name': 1, paused: 1, alone: 1 })
    const { 'alone-1': first, 'alone-2': second, ...others } = await ls(spool)
    assert.deepEqual([first, second].sort(), ['alone', 'running'])
    assert.deepEqual(others, {
      'few-1': 'running',
      'few-2': 'slot',
      lost: 'unknown-name',
      report: 'paused',
      later: 'waiting',
    })
    const { stdout } = await spoold(['ls', spool])
    assert.match(stdout, /^parked .* few-2 +1 of few run already$/m)
    assert.match(stdout, /^parked .* lost +no handler takes no\.such\\x1bname$/m)
    assert.match(stdout, /^parked .* report +paused: tasks with kind=report$/m)
    assert.match(stdout, /^parked .* alone-. +runs alone, because/m)
    assert.deepEqual(Object.keys(await ls(spool, '--state', 'parked')).length, 4)
    assert.deepEqual(await ls(spool, '--state', 'due'), {})
    const shown = await spoold(['show', join(spool, 'few-2')])
    assert.match(shown.stdout, /: parked \(1 of few run already\), due /)
    const json = await spoold(['show', '--json', join(spool, 'few-2')])
    assert.deepEqual(JSON.parse(json.stdout).parked, { reason: 'slot', detail: '1 of few run already' })
  })

  it('are listed as due once their daemon is gone, except paused ones, because a pause is in the directory', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool)
    drop(spool, 'lost', call('nobody'))
    drop(spool, 'report', packet({ kind: 'report', task: 'blocked', args: '[]' }))
    await spoold(['pause', '--key', 'kind=report', spool])
    await parked(spool, { 'unknown-name': 1 })
    assert.equal((await ls(spool)).lost, 'unknown-name')
    daemon.child.kill('SIGKILL')
    await daemon.exited
    await until('the workers of the daemon have gone', async () => (await ls(spool)).report !== 'running')
    assert.deepEqual(await ls(spool), { lost: 'due', report: 'paused' })
  })

  it('are those that all daemons of a spool have parked; what one of them takes is due', async () => {
    const spool = spoolDirectory()
    await start(spool)
    await start(spool, {
      handler: `${HANDLER}tasks.task('mine', () => new Promise(() => {}))`,
      ini: { 'spooler-concurrency': 1, 'spooler-processes': 1 },
    })
    const namesOf = async () =>
      ((await askParked(spool, 9)) ?? []).map(groups => groups.map(({ name }) => name))
    drop(spool, 'lost', call('nobody'))
    await until('both daemons have parked the task', async () => {
      const names = await namesOf()
      return names.length === 2 && names.every(each => each.includes('nobody'))
    })
    drop(spool, 'mine-1', call('mine'))
    await until('one daemon runs the first task', async () => (await ls(spool))['mine-1'] === 'running')
    drop(spool, 'mine-2', call('mine'))
    await until('one daemon has parked the second task', async () =>
      (await namesOf()).some(each => each.includes('mine')),
    )
    const states = await ls(spool)
    assert.deepEqual([states.lost, states['mine-2']], ['unknown-name', 'due'])
  })

  it('are due for commands that change them, which refuse --state parked and say so', async () => {
    const spool = spoolDirectory()
    drop(spool, 'a')
    const { code, stderr } = await spoold(['rm', '--state', 'parked', spool])
    assert.equal(code, 64)
    assert.match(stderr, /--state parked: only ls can tell.*--state due/)
  })
})
