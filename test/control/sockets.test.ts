import assert from 'node:assert/strict'
import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { askDaemon, controlSocketsOf } from '#src/engines/control/client.js'
import type { DaemonSnapshot } from '#src/runtime/stats/snapshot.js'
import { spoold } from '../helpers/cli.js'
import { controlOf, controlsIn, sendRaw, snapshotOf, spoolSnapshotOf } from '../helpers/control.js'
import { type Daemon, type DaemonSetup, startDaemon, writeIni } from '../helpers/daemon.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

async function withDaemon(setup: Partial<DaemonSetup> = {}): Promise<{ spool: string; daemon: Daemon }> {
  const spool = setup.spool ?? spoolDirectory()
  return { spool, daemon: await startDaemon({ spool, ...setup }) }
}

async function stop(daemon: Daemon): Promise<void> {
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
}

const enqueue = (spool: string, ...pairs: string[]) =>
  spoold(['enqueue', '--quiet', '--spooler', spool, ...pairs])

describe('control sockets', () => {
  it('answer with the snapshot of the daemon, and are removed when it ends', async () => {
    const handler = `import { setTimeout } from 'node:timers/promises'
      export default async (env, task) => { await setTimeout(60_000); return task.SPOOL_OK }`
    const { spool, daemon } = await withDaemon({ handler, ini: { 'worker-reload-mercy': 0 } })
    assert.equal(statSync(controlOf(spool)).mode & 0o777, 0o600)
    await enqueue(spool, 'a=1')
    await until('the task runs', async () => (await spoolSnapshotOf(spool)).tasks.running === 1)
    const { daemon: facts, spools } = await snapshotOf(spool)
    assert.deepEqual([facts.pid, facts.state, facts.files], [daemon.pid, 'running', [daemon.iniFile]])
    const [{ directory, processes, disk, look } = assert.fail()] = spools
    assert.equal(directory, spool)
    const [worker = assert.fail()] = processes.workers
    assert.ok(daemon.workers().includes(worker.pid))
    assert.match(worker.running[0]?.task ?? '', /^uwsgi_spoolfile_on_/)
    assert.ok((disk?.freeBytes ?? 0) > 0 && look?.hints === 'events' && (worker.rssBytes ?? 0) > 0)
    await stop(daemon)
    assert.deepEqual(controlsIn(spool), [])
  })

  it('say how long a process has been busy, running tasks included, and never more than it has lived', async () => {
    const handler = `import { setTimeout } from 'node:timers/promises'
      export default async (env, task) => { await setTimeout(60_000); return task.SPOOL_OK }`
    const ini = { 'worker-reload-mercy': 0, 'spooler-concurrency': 4 }
    const { spool, daemon } = await withDaemon({ handler, ini })
    const worker = async () => (await spoolSnapshotOf(spool)).processes.workers[0] ?? assert.fail()
    for (let running = 1; running <= 4; running++) {
      await enqueue(spool, 'a=1')
      await until('the task runs', async () => (await worker()).running.length === running)
      await until('the worker has been busy for longer', async () => (await worker()).busyMs > 500 * running)
    }
    const { busyMs, spawnedAtMs } = await worker()
    const livedMs = Date.now() - spawnedAtMs
    assert.ok(busyMs <= livedMs + 1, `busy for ${busyMs} ms of ${livedMs}`)
    await stop(daemon)
  })

  it('let viewers read, and operators act', async () => {
    const view = join(workspace(), 'view.sock')
    const { spool, daemon } = await withDaemon({
      ini: { 'spooler-control': `${view},role=viewer,mode=0606` },
    })
    assert.equal(statSync(view).mode & 0o777, 0o606)
    const { daemon: facts } = (await askDaemon(view, 'snapshot', {})) as Awaited<
      ReturnType<typeof snapshotOf>
    >
    assert.equal(facts.pid, daemon.pid)
    for (const verb of ['reload', 'stop', 'scan', 'reopen-log'])
      await assert.rejects(askDaemon(view, verb, {}), { code: 'forbidden' })
    await askDaemon(controlOf(spool), 'reload', {})
    await daemon.waitFor('reloaded')
    await askDaemon(controlOf(spool), 'stop', {})
    assert.equal(await daemon.code(), 0)
    assert.equal(existsSync(view), false)
  })

  it('answer at once when asked to wait for no task', async () => {
    const { spool, daemon } = await withDaemon()
    const events: unknown[] = []
    const event = (told: unknown) => void events.push(told)
    const answer = askDaemon(controlOf(spool), 'wait', { spool, tasks: [] }, { timeoutMs: 5000, event })
    assert.equal(await answer, null)
    assert.deepEqual(events, [{ awaited: 0 }])
    await stop(daemon)
  })

  it('can be turned off, and follow a reload', async () => {
    const [spool, other] = [spoolDirectory(), spoolDirectory()]
    const { daemon } = await withDaemon({ spool })
    const reload = async (settings: DaemonSetup['ini']) => {
      writeIni(daemon.iniFile, { 'spooler-import': daemon.handlerFile, ...settings })
      const before = daemon.output.split('reloaded').length
      daemon.child.kill('SIGHUP')
      await until('the daemon is reloaded', () => daemon.output.split('reloaded').length > before)
    }
    await reload({ spooler: [spool, other] })
    await until('both sockets are there', () => controlsIn(spool).length + controlsIn(other).length === 2)
    await reload({ spooler: other })
    await until('the socket in the removed spool has gone', () => controlsIn(spool).length === 0)
    assert.equal((await snapshotOf(other)).spools[0]?.directory, other)
    await reload({ spooler: other, 'spooler-control': 'off' })
    await until('no socket is left', () => controlsIn(other).length === 0)
  })

  it('of two daemons on one spool are two; a dead one is replaced, a living one never', async () => {
    const spool = spoolDirectory()
    const { daemon: one } = await withDaemon({ spool })
    const { daemon: two } = await withDaemon({ spool })
    assert.deepEqual(controlsIn(spool), ['control', 'control.2'])
    const pidsOf = async () => [
      (await snapshotOf(spool)).daemon.pid,
      (await snapshotOf(spool, 'control.2')).daemon.pid,
    ]
    assert.deepEqual(await pidsOf(), [one.pid, two.pid])
    one.child.kill('SIGKILL')
    await one.exited
    assert.deepEqual(
      controlsIn(spool),
      ['control', 'control.2'],
      'the killed daemon could not remove its socket',
    )
    const { daemon: three } = await withDaemon({ spool })
    assert.deepEqual(controlsIn(spool), ['control', 'control.2'])
    assert.deepEqual(await pidsOf(), [three.pid, two.pid])
    await stop(two)
    assert.deepEqual(controlsIn(spool), ['control'])
    assert.equal((await snapshotOf(spool)).daemon.pid, three.pid)
  })

  it('all get a name when several daemons start at once over the socket of a dead one', async () => {
    const spool = spoolDirectory()
    const { daemon: dead } = await withDaemon({ spool })
    dead.child.kill('SIGKILL')
    await dead.exited
    const daemons = await Promise.all(Array.from({ length: 3 }, () => startDaemon({ spool, isAside: false })))
    const pids = await Promise.all(
      controlsIn(spool).map(async name => (await snapshotOf(spool, name)).daemon.pid),
    )
    assert.deepEqual(pids.sort(), daemons.map(({ pid }) => pid).sort())
  })

  it('are opened again by a reload if somebody removed them', async () => {
    const { spool, daemon } = await withDaemon()
    const reload = async () => {
      const before = daemon.output.split('reloaded').length
      daemon.child.kill('SIGHUP')
      await until('the daemon is reloaded', () => daemon.output.split('reloaded').length > before)
    }
    const inode = statSync(controlOf(spool)).ino
    await reload()
    assert.equal(statSync(controlOf(spool)).ino, inode)
    rmSync(join(spool, '.spoold'), { recursive: true })
    await reload()
    await until('there is a socket', () => existsSync(controlOf(spool)))
    assert.equal((await snapshotOf(spool)).daemon.pid, daemon.pid)
    await stop(daemon)
    assert.deepEqual(controlsIn(spool), [])
  })

  it('are found even if the path is longer than a socket address', async () => {
    const deep = join(workspace(), ...Array(8).fill('a-directory-with-a-long-name'))
    mkdirSync(deep, { recursive: true })
    const spool = join(deep, 'spool')
    mkdirSync(spool)
    const { daemon } = await withDaemon({ spool })
    assert.ok(controlOf(spool).length > 200 && lstatSync(controlOf(spool)).isSocket())
    const [path = assert.fail()] = controlSocketsOf(spool)
    const { daemon: facts } = (await askDaemon(path, 'snapshot', {})) as DaemonSnapshot
    assert.equal(facts.pid, daemon.pid)
  })

  it('take no name that a file has, and remove no file', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    writeFileSync(controlOf(spool), 'mine')
    const { daemon } = await withDaemon({ spool })
    assert.deepEqual(controlsIn(spool), ['control', 'control.2'])
    assert.equal((await snapshotOf(spool, 'control.2')).daemon.pid, daemon.pid)
    await stop(daemon)
    assert.deepEqual([controlsIn(spool), statSync(controlOf(spool)).size], [['control'], 4])
  })

  it('withstand clients that are slow, many, malformed or endless', async () => {
    const { spool, daemon } = await withDaemon()
    const path = controlOf(spool)
    const asked = JSON.stringify({ v: 1, id: 1, verb: 'snapshot' })
    const count = isLong ? 2000 : 300
    const slow = Array.from({ length: count }, (_, i) => {
      const socket = connect(path)
      socket.on('error', () => {})
      if (i % 3 === 0) socket.write('{"v":1,"id":1,')
      if (i % 3 === 1) socket.write(`${asked}\n`.repeat(20)).valueOf() // never read: no 'data' listener
      return socket
    })
    try {
      /** Tries until it is let in, because so many clients in so short a time are turned away at first. */
      const insist = (bytes: string | Buffer, isEnded = true) =>
        until('the client is let in', async () => {
          const replies = await sendRaw(path, bytes, { isEnded }).catch(() => [])
          return replies.length > 0 ? replies : undefined
        })
      const tooLong = await insist(`{"v":1,"id":1,"x":"${'x'.repeat(100_000)}"}\n`, false)
      assert.deepEqual(
        tooLong.map(reply => (reply as { error: { code: string } }).error.code),
        ['malformed'],
      )
      for (const bytes of [
        '\n',
        'GET / HTTP/1.1\r\n\r\n',
        Buffer.from([0xff, 0, 10]),
        '{"v":1,"id":[],"verb":"stop"}\n',
      ])
        assert.deepEqual((await insist(bytes)).length, 1)
      await enqueue(spool, 'a=1')
      await until('the task has run', () => daemon.journal().length === 1)
      await until('the task is counted', async () => {
        const { totals, tasks } = await spoolSnapshotOf(spool)
        return totals.done === 1 && tasks.stored === 0
      })
      const descriptors = `/proc/${daemon.pid}/fd`
      assert.ok(readdirSync(descriptors).length < 64 + 64, `${readdirSync(descriptors).length} descriptors`)
    } finally {
      for (const socket of slow) socket.destroy()
    }
    assert.equal((await snapshotOf(spool)).daemon.state, 'running')
  })
})
