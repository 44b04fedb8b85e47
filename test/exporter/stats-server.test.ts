import assert from 'node:assert/strict'
import { existsSync, statSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { type Daemon, type DaemonSetup, startDaemon, writeIni } from '../helpers/daemon.js'
import { ask, exporterOf } from '../helpers/exporter.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { childrenOf } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const ENABLED = /Stats server enabled on 127\.0\.0\.1:([0-9]+) /g
const LOOPBACK = '127.0.0.1:0'

const start = (ini: DaemonSetup['ini'], spool = spoolDirectory()) => startDaemon({ spool, ini: { ...ini } })

/** Returns the port of the last stats server of which the daemon says that it listens. */
async function portOf(daemon: Daemon, times = 1): Promise<number> {
  const ports = () => [...daemon.output.matchAll(ENABLED)].map(([, port]) => Number(port))
  await until('the stats server listens', () => ports().length >= times)
  return ports().at(-1) ?? assert.fail('no port')
}

/** Returns all that the server sends to a client that says nothing. */
function readAll(address: number | string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = typeof address === 'number' ? connect(address, '127.0.0.1') : connect(address)
    let text = ''
    socket.on('data', data => {
      text += data
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(text))
  })
}

describe('the stats server', () => {
  it('says what runs and what ran, in the fields of uWSGI', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: 'export default env => env.wait === undefined ? -2 : new Promise(() => {})',
      ini: { stats: LOOPBACK, 'worker-reload-mercy': 1 },
    })
    const port = await portOf(daemon)
    drop(spool, undefined, packet({ a: '1' }))
    drop(spool, undefined, packet({ a: '2' }))
    await until('both tasks have run', () => leftIn(spool).length === 0)
    drop(spool, undefined, packet({ wait: '1' }))
    const { workers, spoolers } = await until('the third task runs', async () => {
      const document = JSON.parse(await readAll(port))
      return document.spoolers[0].running === 1 ? document : undefined
    })
    assert.deepEqual(
      [workers[0].requests, workers[0].status, spoolers[0].tasks, spoolers[0].dir],
      [2, 'busy', 2, spool],
    )
    assert.ok(childrenOf(daemon.pid).includes(spoolers[0].pid))
    assert.doesNotMatch(await readAll(port), /"wait"/, 'no content of a task is shown')
  })

  it('listens on a unix socket with the mode of chmod-socket, and removes it at the end', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'stats.sock')
    const daemon = await start({ stats: path, 'chmod-socket': '600', 'stats-minified': true }, spool)
    await until('the socket is there', () => existsSync(path))
    assert.equal(statSync(path).mode & 0o777, 0o600)
    assert.doesNotMatch(await readAll(path), /\n/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.equal(existsSync(path), false)
  })

  it('over HTTP, answers only GET under its own name, and lets no page of another site read the answer', async () => {
    const port = await portOf(await start({ stats: LOOPBACK, 'stats-http': true }))
    const { status, headers, text } = await ask(port)
    assert.equal(status, 200)
    assert.equal(JSON.parse(text).spoolers.length, 1)
    assert.equal(headers['access-control-allow-origin'], undefined)
    assert.equal((await ask(port, '/', { host: `localhost:${port}` })).status, 200)
    assert.equal((await ask(port, '/', { host: `rebound.example:${port}` })).status, 421)
    assert.equal((await ask(port, '/', {}, 'POST')).status, 405)
  })

  it('over HTTP, stays closed on an address that others can reach, while tasks run', async () => {
    const spool = spoolDirectory()
    const daemon = await start({ stats: '0.0.0.0:0', 'stats-http': true }, spool)
    await until('the warning is logged', () => daemon.output.includes('0.0.0.0:0 stays closed'))
    drop(spool, undefined, packet({ a: '1' }))
    await until('the task has run', () => leftIn(spool).length === 0)
    assert.equal(exporterOf(daemon), undefined)
  })

  it('waits for an address on which another program listens, while tasks run', async () => {
    const other = createServer()
    await new Promise<void>(resolve => other.listen(0, '127.0.0.1', resolve))
    after(() => other.close())
    const bound = other.address()
    assert.ok(typeof bound === 'object' && bound !== null)
    const spool = spoolDirectory()
    const daemon = await start({ stats: `127.0.0.1:${bound.port}` }, spool)
    await until('the warning is logged', () => daemon.output.includes('another program listens on it'))
    drop(spool, undefined, packet({ a: '1' }))
    await until('the task has run', () => leftIn(spool).length === 0)
    other.close()
    assert.equal(await portOf(daemon), bound.port)
  })

  it('comes back after its process was killed, is kept by a reload, and ends when its option is removed', async () => {
    const daemon = await start({ stats: LOOPBACK })
    await portOf(daemon)
    const first = exporterOf(daemon) ?? assert.fail('no exporter')
    process.kill(first, 'SIGKILL')
    const port = await portOf(daemon, 2)
    const second = exporterOf(daemon)
    daemon.child.kill('SIGHUP')
    await until('the daemon has reloaded', () => daemon.output.includes('reloaded'))
    assert.equal(exporterOf(daemon), second)
    assert.equal(JSON.parse(await readAll(port)).pid, daemon.pid)
    writeIni(daemon.iniFile, {
      spooler: join(daemon.directory, 'spool'),
      'spooler-import': daemon.handlerFile,
    })
    daemon.child.kill('SIGHUP')
    await until('the exporter has ended', () => exporterOf(daemon) === undefined)
  })

  it('answers beside more silent clients than it has descriptors', async () => {
    const ini = { stats: LOOPBACK, 'stats-http': true }
    const port = await portOf(
      await startDaemon({ spool: spoolDirectory(), ini, under: ['prlimit', '--nofile=400'] }),
    )
    const silent: Socket[] = Array.from({ length: 1000 }, () =>
      connect(port, '127.0.0.1')
        .on('error', () => {})
        .pause(),
    )
    after(() => {
      for (const socket of silent) socket.destroy()
    })
    await until('all clients are connected', () => silent.every(({ connecting }) => !connecting))
    assert.equal((await ask(port)).status, 200)
  })
})
