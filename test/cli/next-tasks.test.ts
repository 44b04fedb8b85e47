import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import { spoold } from '../helpers/cli.js'
import { controlOf, spoolSnapshotOf } from '../helpers/control.js'
import { type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const FROM_DAEMON = /as its daemons? will start them \(pids? ([0-9, ]+)\)/

/** Returns names that sort in another order than the tasks arrived in, so that a listing shows which order it is in. */
const nameOf = (n: number) => `uwsgi_spoolfile_on_h_1_${n}_1_${1_700_000_000 - n}_1`
const numbers = (stdout: string) =>
  [...stdout.matchAll(/_on_h_1_([0-9]+)_/g)].map(([, number]) => Number(number))

const ls = async (spool: string, ...args: string[]) => {
  const { code, stdout, stderr } = await spoold(['ls', ...args, spool])
  assert.equal(code, 0, stderr)
  return { shown: numbers(stdout), pids: FROM_DAEMON.exec(stderr)?.[1], stdout, stderr }
}

/** Starts a daemon that orders tasks by name, and whose first task does not end. */
async function busyDaemon(spool: string, setup: Partial<DaemonSetup> = {}) {
  const { ini, ...rest } = setup
  const daemon = await startDaemon({
    spool,
    handler: 'export default () => new Promise(() => {})',
    ini: { 'spooler-ordered': true, 'worker-reload-mercy': 1, ...ini },
    ...rest,
  })
  await until('a task runs', async () => (await spoolSnapshotOf(spool)).tasks.running === 1)
  return daemon
}

function spoolOf(...present: readonly number[]): string {
  const spool = spoolDirectory()
  for (const n of present) drop(spool, nameOf(n), packet({ n: String(n), even: String(n % 2 === 0) }))
  return spool
}

describe('ls --limit beside a daemon', () => {
  it('lists what runs, and then what the daemon starts next, in the order of the daemon', async () => {
    const spool = spoolOf(1, 2, 3, 4, 5)
    assert.deepEqual((await ls(spool, '--limit', '3')).shown, [5, 4, 3], 'as they arrived')
    const daemon = await busyDaemon(spool)
    const { shown, pids, stdout } = await ls(spool, '--limit', '3')
    assert.deepEqual([shown, pids], [[1, 2, 3], String(daemon.pid)])
    assert.match(stdout, /^running .*_1_1_1_.*\n^due /m)
    const json = await ls(spool, '--limit', '3', '--json')
    assert.deepEqual([json.shown, json.stderr], [[1, 2, 3], ''])
  })

  it('reads the files, and leaves out tasks that are gone, wait or do not pass a filter', async () => {
    const spool = spoolOf(1, 2, 3, 4, 5, 6, 7, 8)
    await busyDaemon(spool, { ini: { 'spooler-watch': 'off', 'spooler-frequency': 3600 } })
    rmSync(join(spool, nameOf(2)))
    utimesSync(join(spool, nameOf(3)), 4_000_000_000, 4_000_000_000)
    const first = await ls(spool, '--limit', '3')
    assert.deepEqual([first.shown, first.pids === undefined], [[1, 4, 5], false])
    assert.deepEqual((await ls(spool, '--limit', '2', '--key', 'even=true')).shown, [4, 6])
    assert.deepEqual((await ls(spool, '--limit', '2', '--name', '*_1_[67]_1_*')).shown, [6, 7])
  })

  it('lists the directory when the daemon knows too few tasks, and for every other order', async () => {
    const spool = spoolOf(1, 2, 3)
    drop(spool, nameOf(9), packet({ n: '9' }), 4_000_000_000)
    await busyDaemon(spool)
    for (const [args, expected] of [
      [
        ['--limit', '4'],
        [3, 2, 1, 9],
      ],
      [['--limit', '2', '--key', 'even=true'], [2]],
      [['--limit', '1', '--state', 'waiting'], [9]],
      [
        ['--limit', '2', '--reverse'],
        [9, 1],
      ],
      [
        ['--limit', '2', '--sort', 'age'],
        [9, 3],
      ],
      [[], [3, 2, 1, 9]],
    ] as const) {
      const { shown, stderr } = await ls(spool, ...args)
      assert.deepEqual([shown, stderr], [expected, ''], args.join(' '))
    }
  })

  it('lists the directory when the daemon does not answer or is dead', async () => {
    const spool = spoolOf(1, 2, 3)
    const daemon = await busyDaemon(spool)
    daemon.child.kill('SIGSTOP')
    const stopped = await ls(spool, '--limit', '2')
    assert.deepEqual([stopped.shown, stopped.stderr], [[3, 2], ''])
    daemon.child.kill('SIGKILL')
    await daemon.exited
    const dead = await ls(spool, '--limit', '2')
    assert.deepEqual([dead.shown, dead.stderr], [[3, 2], ''])
  })

  it('takes turns between two daemons, and lists no task twice', async () => {
    const spool = spoolOf(1, 2, 3, 4, 5, 6)
    const first = await busyDaemon(spool)
    const second = await startDaemon({
      spool,
      handler: 'export default () => new Promise(() => {})',
      ini: { 'spooler-ordered': true, 'worker-reload-mercy': 1 },
    })
    await until('both daemons run a task', async () => {
      const { stdout } = await ls(spool, '--state', 'running')
      return stdout.split('running').length === 3
    })
    const { shown, pids } = await ls(spool, '--limit', '5')
    assert.equal(pids, `${first.pid}, ${second.pid}`)
    assert.deepEqual(shown, [1, 2, 3, 4, 5])
  })

  it('lists the directory when an answer names files outside the spool, or no file at all', async () => {
    const spool = spoolOf(1, 2, 3)
    const secret = join(dirname(spool), 'secret')
    writeFileSync(secret, packet({ secret: 'zq-31' }))
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    const names = ['../secret', '.spoold/../../secret', '5/../../secret', '', '5/', 'a\0b', 'a\u012fb', 7]
    let asked = 0
    const server = createServer(socket => {
      socket.on('error', () => {})
      socket.once('data', request => {
        if (!String(request).includes('"next"')) return void socket.destroy()
        const tasks = [names[asked++], nameOf(1), nameOf(2)]
        socket.end(`${JSON.stringify({ v: 1, id: 1, ok: { pid: 1, tasks } })}\n`)
      })
    })
    after(() => server.close())
    await new Promise<void>(resolve => server.listen(controlOf(spool), resolve))
    for (const name of names) {
      const { shown, stdout, stderr } = await ls(spool, '--limit', '2', '--vars')
      assert.deepEqual([shown, stderr], [[3, 2], ''], JSON.stringify(name))
      assert.equal(stdout.includes('zq-31'), false)
    }
    assert.equal(asked, names.length)
    assert.ok(readFileSync(secret).includes('zq-31'))
  })
})

describe('the verb later', () => {
  it('names the tasks that wait for their time, the next one to come due first', async () => {
    const spool = spoolOf(1, 2)
    const seconds = Math.ceil(Date.now() / 1000)
    for (const [name, at] of [
      ['third', 900],
      ['first', 300],
      ['second', 600],
    ] as const)
      drop(spool, name, packet({ name }), seconds + at)
    await busyDaemon(spool)
    const askFor = async (args: object) =>
      ((await askDaemon(controlOf(spool), 'later', { spool, ...args })) as { tasks: unknown[] }).tasks
    const known = await until('the daemon has looked at all tasks', async () => {
      const tasks = await askFor({})
      return tasks.length === 3 && tasks
    })
    assert.deepEqual(known, ['first', 'second', 'third'])
    assert.deepEqual(await askFor({ limit: 1 }), ['first'])
    await assert.rejects(askDaemon(controlOf(spool), 'later', { spool: '/elsewhere' }), { code: 'failed' })
  })
})

describe('the verb next', () => {
  it('names files byte for byte, and refuses a spool that the daemon does not have', async () => {
    const spool = spoolOf(1)
    drop(spool, '2', packet({ n: '2' }))
    mkdirSync(join(spool, '5'))
    const bytes = Buffer.concat([Buffer.from(`${spool}/5/uwsgi_spoolfile_on_`), Buffer.from([0xe9])])
    writeFileSync(bytes, packet({ n: '3' }))
    await busyDaemon(spool)
    const answer = await until('the daemon knows all tasks', async () => {
      const { tasks } = (await askDaemon(controlOf(spool), 'next', { spool })) as { tasks: unknown[] }
      return tasks.length === 3 ? tasks : undefined
    })
    assert.deepEqual(answer, ['2', bytes.subarray(spool.length + 1).toString('latin1'), nameOf(1)])
    const limited = await askDaemon(controlOf(spool), 'next', { spool, limit: 1 })
    assert.deepEqual((limited as { tasks: unknown[] }).tasks, ['2'])
    await assert.rejects(askDaemon(controlOf(spool), 'next', { spool: '/elsewhere' }), { code: 'failed' })
    await assert.rejects(askDaemon(controlOf(spool), 'next', {}), { code: 'invalid-args' })
  })
})
