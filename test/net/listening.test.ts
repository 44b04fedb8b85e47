import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { giveAway, USER } from '../helpers/canaries.js'
import { type DaemonSetup, startDaemon, writeIni } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { endWithTest, identityOf, untilGone } from '../helpers/proc.js'
import { childrenOf, TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { Client, exchange, PONG, portOf, REFUSED, STORED, wire } from '../helpers/wire.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const TASK = wire([['a', 'b']])
const PING = wire([], { modifier1: 100 })

/** Takes one connection, and then listens no longer, before that connection ends. */
const LISTENS_ONCE = `
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + ".new")
listener.listen(1)
os.rename(sys.argv[1] + ".new", sys.argv[1])
client, _ = listener.accept()
listener.close()
client.close()
`

function start(ini: DaemonSetup['ini'], more: Partial<DaemonSetup> = {}) {
  return startDaemon({ spool: spoolDirectory(), ini: { ...ini }, ...more })
}

describe('a unix socket', () => {
  it('takes tasks, stays after the daemon has ended, as in uWSGI, and is replaced at the next start', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'app.sock')
    for (let i = 0; i < 2; i++) {
      const daemon = await startDaemon({ spool, ini: { socket: path } })
      assert.equal(await exchange(path, TASK), STORED)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
      assert.ok(statSync(path).isSocket())
      assert.deepEqual(
        readdirSync(dirname(path)).filter(name => name.includes('.sock')),
        ['app.sock'],
      )
    }
  })

  it('is replaced if its daemon was killed, and removed at the end with vacuum', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'app.sock')
    const killed = await startDaemon({ spool, ini: { socket: path } })
    killed.child.kill('SIGKILL')
    await killed.exited
    const daemon = await startDaemon({ spool, ini: { socket: 'app.sock', vacuum: true } })
    assert.equal(await exchange(path, PING), PONG)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /VACUUM: unix socket \S*app.sock removed\./)
    assert.ok(!existsSync(path))
  })

  it('is replaced if its listener is about to end: still takes a connection, and hangs up', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'app.sock')
    const dying = new TestProcess(PYTHON, ['-c', LISTENS_ONCE, path])
    await until('the dying listener listens', () => existsSync(path))
    await startDaemon({ spool, ini: { socket: path } })
    assert.equal(await exchange(path, PING), PONG)
    assert.equal((await dying.exited).code, 0)
  })

  it('is not taken from a server that hangs up on every client', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'app.sock')
    const other = createServer(client => client.destroy())
    after(() => other.close())
    await new Promise<void>(done => other.listen(path, done))
    const daemon = await startDaemon({ spool, ini: { socket: path }, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /app\.sock: another program listens on it\n/)
  })

  it('is reported with its directory if that is missing', async () => {
    const spool = spoolDirectory()
    const directory = join(dirname(spool), 'missing')
    const daemon = await startDaemon({ spool, ini: { stats: join(directory, 'stats.sock') } })
    await daemon.waitFor(`stats.sock: there is no directory ${directory}\n`)
  })

  it('is not taken from a live server, which goes on serving', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'app.sock')
    await startDaemon({ spool, ini: { socket: path } })
    const second = await startDaemon({ spool, ini: { socket: path, vacuum: true }, isUnready: true })
    assert.equal(await second.code(), 1)
    assert.match(
      second.output,
      /\[SOCKET_UNUSABLE\] cannot listen on socket \S+app\.sock: another program listens on it/,
    )
    assert.equal(await exchange(path, PING), PONG)
  })

  it('does not replace a file of its name that is not a socket', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'precious')
    writeFileSync(path, 'do not remove')
    const daemon = await startDaemon({ spool, ini: { socket: path }, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /another file of this name, which is not a socket/)
    assert.equal(readFileSync(path, 'utf8'), 'do not remove')
  })

  it('is not removed by vacuum if another server has taken its name', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'app.sock')
    const daemon = await startDaemon({ spool, ini: { socket: path, vacuum: true } })
    const other = createServer()
    after(() => other.close())
    await new Promise<void>(done => other.listen(`${path}.other`, done))
    renameSync(`${path}.other`, path)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.ok(existsSync(path))
  })

  for (const [value, mode] of [
    ['660', 0o660],
    ['0600', 0o600],
    ['true', 0o666],
  ] as const)
    it(`has the mode of chmod-socket = ${value}`, async () => {
      const spool = spoolDirectory()
      const path = join(dirname(spool), 'app.sock')
      await startDaemon({ spool, ini: { socket: path, 'chmod-socket': value, umask: '077' } })
      assert.equal(statSync(path).mode & 0o777, mode)
    })

  it('belongs to chown-socket, and is bound before privileges are dropped', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    const directory = dirname(spool)
    chmodSync(directory, 0o755) // the daemon could not make a file here once it is no longer root
    const path = join(directory, 'app.sock')
    chownSync(spool, 65_534, 65_534)
    await startDaemon({
      spool,
      isAside: true,
      ini: { socket: path, 'chown-socket': '7:12', uid: 65_534, gid: 65_534 },
    })
    const { uid, gid } = statSync(path)
    assert.deepEqual([uid, gid], [7, 12])
    assert.equal(await exchange(path, TASK), STORED)
    const [task = ''] = leftIn(spool)
    assert.equal(statSync(join(spool, task)).uid, 65_534, 'the task belongs to the user who will run it')
  })

  it('can be abstract', async () => {
    const name = `spoold-test-${process.pid}`
    await start({ socket: `@${name}` })
    const line = readFileSync('/proc/net/unix', 'utf8')
      .split('\n')
      .find(each => each.includes(`@${name}@`))
    assert.ok(line !== undefined)
    assert.equal(await exchange(`\0${name}\0`, TASK), STORED)
    const second = await start({ socket: `@${name}` }, { isUnready: true })
    assert.equal(await second.code(), 1)
    assert.match(second.output, /another program listens on it/)
  })
})

describe('a TCP socket', () => {
  it('is refused if another program has the port', async () => {
    const port = await portOf(await start({ socket: '127.0.0.1:0' }))
    const second = await start({ socket: `127.0.0.1:${port}` }, { isUnready: true })
    assert.equal(await second.code(), 1)
    assert.match(second.output, /another program listens on it/)
    assert.match(second.output, /SOCKET_UNUSABLE/)
  })

  it('serves only the peers that socket-allow names', async () => {
    const port = await portOf(await start({ socket: '127.0.0.1:0', 'socket-allow': ['127.0.0.2/31', '::1'] }))
    const from = (localAddress: string) => Client.to({ host: '127.0.0.1', port, localAddress })
    const friend = (await from('127.0.0.2')).send(PING)
    await friend.ended()
    assert.equal(friend.received, PONG)
    const stranger = await from('127.0.0.1')
    stranger.send(TASK)
    await stranger.ended()
    assert.equal(stranger.received, '')
  })

  it('takes tasks on ::1, with an IPv6 network in socket-allow', async () => {
    const daemon = await start({ socket: '[::1]:0', 'socket-allow': '::1/128' })
    const port = await portOf(daemon)
    assert.match(daemon.output, /bound to TCP6 address \[::1\]:\d+/)
    const client = (await Client.to({ host: '::1', port })).send(PING)
    await client.ended()
    assert.equal(client.received, PONG)
  })

  it('is warned of, and refused under strict, if it is open to the network, unless socket-allow is set', async () => {
    const ini = { socket: ':0' }
    const daemon = await start(ini)
    assert.match(
      daemon.output,
      /warning: socket: anyone who can reach :0 can run tasks; name the allowed networks/,
    )
    const strict = await start({ ...ini, strict: true }, { isUnready: true })
    assert.equal(await strict.code(), 1)
    assert.match(strict.output, /app\.ini:\d+: error: socket: anyone who can reach/)
    const allowed = await start({ ...ini, 'socket-allow': '127.0.0.0/8', strict: true })
    assert.doesNotMatch(allowed.output, /anyone who can reach|warning/)
  })
})

describe('a socket that systemd hands over', () => {
  /** Listens, then becomes spoold with the socket as descriptor 3, as systemd does. */
  const ACTIVATE = `
import os, socket, sys
s = socket.socket(socket.AF_UNIX if sys.argv[1].startswith('/') else socket.AF_INET)
s.bind(sys.argv[1] if sys.argv[1].startswith('/') else (sys.argv[1], 0))
s.listen(5)
if not sys.argv[1].startswith('/'): print('port', s.getsockname()[1], flush=True)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ['LISTEN_FDS'] = '1'
os.environ['LISTEN_PID'] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])`

  async function activate(address: string, ini: DaemonSetup['ini']) {
    const spool = spoolDirectory()
    const directory = dirname(spool)
    writeFileSync(
      join(directory, 'handler.mjs'),
      'export default (env, task) => { console.log("env " + process.env.LISTEN_FDS); return task.SPOOL_OK }',
    )
    writeIni(join(directory, 'app.ini'), { spooler: spool, 'spooler-import': 'handler.mjs', ...ini })
    if (ini?.uid !== undefined) {
      chmodSync(directory, 0o755)
      giveAway(spool)
    }
    const where = address === 'unix' ? join(directory, 'handed.sock') : address
    const daemon = new TestProcess(PYTHON, ['-c', ACTIVATE, where, process.execPath, BIN, 'app.ini'], {
      cwd: directory,
    })
    return { daemon, where, spool }
  }

  it('is served, and its address in the ini is not bound again', {
    skip: skipUnless('python3'),
  }, async () => {
    const { daemon, where } = await activate('unix', { socket: 'handed.sock', vacuum: true })
    await daemon.waitFor(/is running/)
    assert.match(daemon.output, /uwsgi socket 0 inherited UNIX address \S*handed\.sock/)
    assert.doesNotMatch(daemon.output, /bound to/)
    assert.equal(await exchange(where, TASK), STORED)
    await daemon.waitFor('env undefined')
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.ok(existsSync(where), 'an inherited socket is not removed')
  })

  it('is kept by a daemon that goes into the background', { skip: skipUnless('python3') }, async () => {
    const { daemon, where, spool } = await activate('unix', { daemonize: 'log', pidfile: 'pid' })
    assert.equal(await daemon.code(), 0, daemon.output)
    const pid = Number(readFileSync(join(dirname(spool), 'pid'), 'utf8'))
    endWithTest(pid)
    assert.equal(await exchange(where, TASK), STORED)
    const log = () => readFileSync(join(dirname(spool), 'log'), 'utf8')
    await until('the task has run', () => log().includes('env undefined'))
    assert.match(log(), /uwsgi socket 0 inherited UNIX address \S*handed\.sock/)
    process.kill(pid, 'SIGTERM')
    await untilGone(pid)
  })

  it('is kept by a daemon with a root parent in the background, even over a touch-reload', {
    skip: skipUnless('python3', 'root'),
  }, async () => {
    const touched = join(workspace(), 'touched')
    writeFileSync(touched, '')
    chmodSync(dirname(touched), 0o755)
    const { daemon, where, spool } = await activate('unix', {
      'master-as-root': true,
      uid: USER,
      gid: USER,
      daemonize: 'log',
      pidfile: 'pid',
      'touch-spoolers-reload': touched,
    })
    assert.equal(await daemon.code(), 0, daemon.output)
    const parent = Number(readFileSync(join(dirname(spool), 'pid'), 'utf8'))
    endWithTest(parent)
    const log = () => readFileSync(join(dirname(spool), 'log'), 'utf8')
    const runs = () => log().split('env undefined').length - 1
    assert.equal(await exchange(where, TASK), STORED)
    await until('the task has run', () => runs() === 1)
    assert.match(log(), /uwsgi socket 0 inherited UNIX address \S*handed\.sock/)
    utimesSync(touched, new Date(), new Date())
    await until('the daemon has reloaded', () => log().includes('the spoolers are reloaded'))
    assert.equal(await exchange(where, TASK), STORED)
    await until('the next task has run', () => runs() === 2)
    const [master = 0] = childrenOf(parent)
    assert.deepEqual(identityOf(master).uids, [USER, USER, USER, USER])
    process.kill(parent, 'SIGTERM')
    await untilGone(parent)
  })

  it('needs socket-allow under strict if open to the network', { skip: skipUnless('python3') }, async () => {
    const { daemon } = await activate('0.0.0.0', { strict: true })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /anyone who can reach 0\.0\.0\.0:\d+ can run tasks/)
    const allowed = await activate('0.0.0.0', { strict: true, 'socket-allow': '127.0.0.0/8' })
    await allowed.daemon.waitFor(/is running/)
    const port = Number(/port (\d+)/.exec(allowed.daemon.output)?.[1])
    assert.equal(await exchange(port, TASK), STORED)
  })
})

describe('the sockets of a daemon', () => {
  it('stay open over a reload, with their connections, and take the new limits and spools', async () => {
    const spool = spoolDirectory()
    const another = join(dirname(spool), 'another')
    mkdirSync(another)
    const ini = { socket: '127.0.0.1:0' }
    const daemon = await startDaemon({ spool, isAside: true, ini })
    const port = await portOf(daemon)
    const kept = await Client.to(port)
    const open = wire([['spooler', another]], { modifier2: 1 })
    await kept.send(open).got(REFUSED)
    writeIni(daemon.iniFile, {
      'spooler-external': [spool, another],
      'spooler-import': daemon.handlerFile,
      ...ini,
      'buffer-size': 200,
    })
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the spoolers are reloaded')
    await kept.send(open).got(REFUSED + STORED)
    assert.equal(await exchange(port, wire([['a', 'b'.repeat(200)]])), REFUSED)
    assert.equal(leftIn(another).length, 1)
    kept.close()
  })

  it('stay as they are when a reload is refused', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      isAside: true,
      ini: { socket: '127.0.0.1:0' },
    })
    const port = await portOf(daemon)
    writeIni(daemon.iniFile, {
      spooler: [join(dirname(spool), 'new'), spool],
      'spooler-import': '/nowhere.mjs',
      socket: 'x:y',
    })
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the reload is rejected')
    assert.equal(await exchange(port, TASK), STORED)
    assert.equal(leftIn(spool).length, 1)
  })

  it('close at a stop, after requests that had begun are stored and answered', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      isAside: true,
      ini: { socket: '127.0.0.1:0', 'socket-timeout': 20 },
    })
    const port = await portOf(daemon)
    const idle = await Client.to(port)
    await idle.send(wire([['n', '0']], { modifier2: 1 })).got(STORED)
    const half = (await Client.to(port)).send(TASK.subarray(0, 6))
    const body = (await Client.to(port))
      .send(wire([['CONTENT_LENGTH', '10']], { modifier2: 1 }))
      .send('hello')
    await until('the body is under way', () => leftInHidden(spool).length === 1)
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('SIGINT/SIGTERM received')
    assert.equal(await idle.ended(), 'eof', 'an idle connection is closed at once')
    await until('nothing listens', () =>
      Client.to(port).then(
        client => client.close(),
        () => true,
      ),
    )
    half.send(TASK.subarray(6))
    await half.got(STORED)
    await body.send('world').got(STORED)
    assert.equal(await body.ended(), 'eof', 'no more of the body is read')
    half.close()
    assert.equal(await daemon.code(), 0)
    assert.equal(leftIn(spool).length, 3)
  })

  it('do not delay a stop for longer than worker-reload-mercy', async () => {
    const daemon = await start({
      socket: '127.0.0.1:0',
      'worker-reload-mercy': 1,
      'socket-timeout': 600,
      'socket-request-timeout': 600,
    })
    const client = (await Client.to(await portOf(daemon))).send(TASK.subarray(0, 6))
    await client.send('').got('')
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    await client.ended()
  })

  it('take tasks for a spool by its real path and its path in the ini, and for no other path', async () => {
    const spool = spoolDirectory()
    const link = join(dirname(spool), 'link')
    symlinkSync(spool, link)
    const ini = { socket: '127.0.0.1:0' }
    const directory = dirname(spool)
    writeFileSync(join(directory, 'h.mjs'), 'export default (env, task) => task.SPOOL_OK')
    writeIni(join(directory, 'link.ini'), { 'spooler-external': link, 'spooler-import': 'h.mjs', ...ini })
    const daemon = new TestProcess(process.execPath, [BIN, 'link.ini'], { cwd: directory })
    const port = await portOf(daemon)
    await daemon.waitFor(/is running/)
    const reply = (name: string) => exchange(port, wire([['spooler', name]]))
    for (const name of [spool, link, `${spool}/`, `${link}//`, `${spool}/../spool`])
      assert.equal(await reply(name), STORED, name)
    for (const name of ['spool', 'link', '.', `${spool}/5`, directory, '/', `${spool}\0`, '/proc/self/root'])
      assert.equal(await reply(name), REFUSED, name)
  })
})

/** Returns the hidden files of tasks that are being written. */
function leftInHidden(spool: string): string[] {
  return leftIn(spool).filter(name => name.startsWith('.'))
}
