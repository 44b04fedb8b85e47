import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { controlOf, controlsIn, snapshotOf } from '../helpers/control.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

function listenOn(path: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    after(() => server.close())
    server.once('error', reject)
    server.listen(path, () => resolve(server))
  })
}

/** Makes all file systems look like NFS to the program that preloads it. */
const PRELOAD = `
  import { promises } from 'node:fs'
  import { syncBuiltinESMExports } from 'node:module'
  const { statfs } = promises
  promises.statfs = async (...args) => Object.assign(await statfs(...args), { type: 0x6969 })
  syncBuiltinESMExports()`

/** Starts daemons of several hosts on a spool that all of them see. */
function network(spool: string): (host: string) => Promise<Daemon> {
  const preload = join(workspace(), 'nfs.mjs')
  writeFileSync(preload, PRELOAD)
  return host =>
    startDaemon({
      spool,
      env: { ...process.env, NODE_OPTIONS: `--import=${preload}` },
      under: ['unshare', '--uts', 'sh', '-c', `echo ${host} > /proc/sys/kernel/hostname && exec "$@"`, 'sh'],
    })
}

describe('the control sockets of many daemons', () => {
  it('are 16 at most: one more daemon runs tasks without a socket, and takes the next name that becomes free', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    const names = ['control', ...Array.from({ length: 15 }, (_, i) => `control.${i + 2}`)]
    const servers = await Promise.all(names.map(name => listenOn(controlOf(spool, name))))
    const daemon = await startDaemon({ spool })
    await daemon.waitFor(
      'no control socket: as many daemons as can have a control socket in .spoold have one',
    )
    assert.deepEqual(controlsIn(spool), names.sort())
    drop(spool)
    await until('the task has run', () => daemon.journal().length === 1)
    servers[4]?.close()
    await until('the daemon has a socket', () => controlsIn(spool).length === 16)
    assert.equal((await snapshotOf(spool, 'control.5')).daemon.pid, daemon.pid)
    assert.equal(daemon.output.split('no control socket').length, 2, 'it said so once')
  })

  it('are named after the host on a network file system, and no host takes the name of another', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const spool = spoolDirectory()
    const startOn = network(spool)
    const [first, elsewhere] = [await startOn('web1'), await startOn('web2')]
    assert.deepEqual(controlsIn(spool), ['control@web1', 'control@web2'])
    elsewhere.child.kill('SIGKILL')
    await elsewhere.exited
    const second = await startOn('web1')
    assert.deepEqual(controlsIn(spool), ['control@web1', 'control@web1.2', 'control@web2'])
    const { stdout } = await spoold(['status', '--json', spool])
    const { spools } = JSON.parse(stdout)
    assert.deepEqual(
      spools.map(({ daemon }: { daemon: { host: string; pid: number } }) => [daemon.host, daemon.pid]),
      [
        ['web1', first.pid],
        ['web1', second.pid],
      ],
    )
    const back = await startOn('web2')
    assert.deepEqual(controlsIn(spool), ['control@web1', 'control@web1.2', 'control@web2'])
    assert.equal((await snapshotOf(spool, 'control@web2')).daemon.pid, back.pid)
  })
})
