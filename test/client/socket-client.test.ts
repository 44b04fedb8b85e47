import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { Request } from '#src/base/task/request.js'
import { type SocketClientOptions, SocketDestination } from '#src/engines/client/socket-client.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { requestFrom } from '../helpers/request.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { DEBIAN, PYPI, startUwsgi, withPlugins } from '../helpers/uwsgi.js'
import { portOf, wire } from '../helpers/wire.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

function open(address: string, options?: SocketClientOptions) {
  const destination = new SocketDestination(address, options)
  return { enqueue: async (request: Request) => (await destination.store(request)).path }
}

async function server(ini: Readonly<Record<string, string | number>> = {}, spool = spoolDirectory()) {
  const daemon = await startDaemon({ spool, isAside: true, ini: { socket: '127.0.0.1:0', ...ini } })
  const port = ini.socket === undefined ? await portOf(daemon) : 0
  return { spool, daemon, address: `127.0.0.1:${port}` }
}

const contents = (spool: string) => leftIn(spool).map(path => readFileSync(join(spool, path)))

/** Starts a server that answers as the test says. @returns its address */
async function fake(answer: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const each: Server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    answer(socket)
  })
  after(() => {
    each.close()
    for (const socket of sockets) socket.destroy()
  })
  await new Promise<void>(done => each.listen(0, '127.0.0.1', done))
  const bound = each.address()
  return `127.0.0.1:${typeof bound === 'object' ? bound?.port : ''}`
}

describe('the client of a socket', () => {
  it('stores tasks as the library does, and returns the address', async () => {
    const { spool, address } = await server()
    const transport = open(address)
    assert.equal(
      await transport.enqueue(requestFrom({ to: 'joe' }, { at: 2_000_000_000, priority: 5 })),
      address,
    )
    assert.equal(
      await transport.enqueue({ packet: wire([]), priority: '7', atSeconds: 2_000_000_001 }),
      address,
    )
    assert.equal(await transport.enqueue(requestFrom({}, { body: 'hello' })), address)
    const files = contents(spool).map(file => file.toString('latin1'))
    const expected = [
      wire([
        ['to', 'joe'],
        ['at', '2000000000'],
        ['priority', '5'],
      ]),
      wire([
        ['priority', '7'],
        ['at', '2000000001'],
      ]),
      Buffer.concat([wire([]), Buffer.from('hello')]),
    ]
    assert.deepEqual(new Set(files), new Set(expected.map(file => file.toString('latin1'))))
    assert.deepEqual(
      leftIn(spool)
        .map(path => path.split('/')[0])
        .filter(name => name?.length === 1),
      ['5', '7'],
    )
  })

  it('takes a thousand calls at once over one connection', async () => {
    const { spool, daemon, address } = await server({ 'socket-max-connections': 1 })
    const transport = open(address)
    await Promise.all(Array.from({ length: 1000 }, (_, i) => transport.enqueue(requestFrom({ i }))))
    assert.equal(leftIn(spool).length, 1000)
    assert.doesNotMatch(daemon.output, /turned away/)
  })

  it('sends a stream as a body', async () => {
    const { spool, address } = await server()
    const body = async function* () {
      yield Buffer.from('one ')
      yield Buffer.from('two')
    }
    await open(address).enqueue({ packet: wire([]), body: body() })
    assert.deepEqual(contents(spool), [Buffer.concat([wire([]), Buffer.from('one two')])])
  })

  it('works over unix and abstract sockets', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 's')
    const name = `@spoold-transport-${process.pid}`
    await startDaemon({ spool, isAside: true, ini: { socket: [path, name] } })
    for (const address of [path, name])
      assert.equal(await open(address).enqueue(requestFrom({ address })), address)
    assert.equal(leftIn(spool).length, 2)
  })

  it('connects again after the daemon was restarted, and after an idle connection was closed', async () => {
    const spool = spoolDirectory()
    const name = `idle-${process.pid}`
    const path = join(dirname(spool), name)
    const start = () =>
      startDaemon({ spool, isAside: true, ini: { socket: path, 'socket-keepalive-timeout': 0.2 } })
    const first = await start()
    const transport = open(path)
    await transport.enqueue(requestFrom({ n: 1, at: 2_000_000_000 }))
    first.child.kill('SIGKILL')
    await first.exited
    // the kernel closed the sockets of the daemon before its exit could be awaited: some turns later the client has heard
    // of it, and knows that what it is given now was never sent
    const heard = async () => {
      for (let turn = 0; turn < 10; turn++) await new Promise(resolve => setImmediate(resolve))
    }
    await heard()
    await assert.rejects(transport.enqueue(requestFrom({ n: 2, at: 2_000_000_000 })), {
      code: 'SOCKET_UNREACHABLE',
    })
    const second = await start()
    await transport.enqueue(requestFrom({ n: 3, at: 2_000_000_000 }))
    const connections = () =>
      readFileSync('/proc/net/unix', 'utf8')
        .split('\n')
        .filter(line => line.includes(`/.${name}.`)).length // the name that it was bound with
    await until('the daemon has closed the connection', () => connections() === 1)
    await heard()
    await transport.enqueue(requestFrom({ n: 4, at: 2_000_000_000 }))
    assert.ok(second.isRunning)
    assert.equal(leftIn(spool).length, 3)
  })

  it('rejects with a code what the daemon refuses, and what it refuses itself', async () => {
    const { spool, daemon, address } = await server({ 'socket-max-body': 10, 'buffer-size': 100 })
    const transport = open(address)
    await assert.rejects(transport.enqueue(requestFrom({ spooler: '/nope' })), { code: 'SOCKET_REFUSED' })
    await assert.rejects(transport.enqueue(requestFrom({}, { body: 'x'.repeat(11) })), {
      code: 'SOCKET_REFUSED',
    })
    await assert.rejects(transport.enqueue(requestFrom({ a: 'x'.repeat(100) })), { code: 'SOCKET_REFUSED' })
    await assert.rejects(transport.enqueue(requestFrom({ CONTENT_LENGTH: '3' })), {
      code: 'REQUEST_INVALID',
      message: /CONTENT_LENGTH/,
    })
    await assert.rejects(transport.enqueue({ packet: wire(Buffer.from('\x05\0ab')) }), {
      code: 'PACKET_MALFORMED',
    })
    await assert.rejects(open(address, { maxBodyBytes: 3 }).enqueue(requestFrom({}, { body: 'four' })), {
      code: 'REQUEST_INVALID',
    })
    await transport.enqueue(requestFrom({ a: 1 }))
    assert.equal(leftIn(spool).length, 1)
    assert.match(daemon.output, /unable to find spooler "\/nope"/)
  })

  it('rejects with SOCKET_UNREACHABLE when nothing listens, and with SOCKET_UNANSWERED without an answer', async () => {
    await assert.rejects(open('127.0.0.1:1').enqueue(requestFrom({})), {
      code: 'SOCKET_UNREACHABLE',
      message: /127\.0\.0\.1:1/,
    })
    await assert.rejects(open('/nowhere/s').enqueue(requestFrom({})), {
      code: 'SOCKET_UNREACHABLE',
      message: /ENOENT/,
    })
    assert.throws(() => open('nonsense:'), { code: 'ADDRESS_INVALID' })
    const pongs = Buffer.concat([
      wire([], { modifier1: 100, modifier2: 1 }),
      wire([], { modifier1: 100, modifier2: 1 }),
    ])
    const mute = await fake(socket => socket.once('data', () => socket.write(pongs)))
    await assert.rejects(open(mute, { timeoutMs: 200 }).enqueue(requestFrom({})), {
      code: 'SOCKET_UNANSWERED',
      message: /may have been stored/,
    })
    const dying = await fake(socket => {
      socket.once('data', () => socket.write(pongs, () => socket.once('data', () => socket.destroy())))
    })
    await assert.rejects(open(dying).enqueue(requestFrom({})), { code: 'SOCKET_UNANSWERED' })
  })

  it('does not keep a program alive', async () => {
    const { spool, address } = await server()
    const script = `
      const { SocketDestination } = await import('${ROOT}/build/src/engines/client/socket-client.js')
      console.log(await new SocketDestination('${address}').store({ packet: Buffer.of(17, 0, 0, 0) }))`
    const program = new TestProcess(process.execPath, ['--input-type=module', '-e', script])
    assert.equal(await program.code(10_000), 0)
    assert.equal(leftIn(spool).length, 1)
  })
})

describe('the client of a real uWSGI', () => {
  const ROWS = [
    [DEBIAN, 'spooler,ping'],
    [DEBIAN, 'spooler'],
    [PYPI, ''],
  ] as const
  for (const [uwsgi, plugins] of ROWS)
    it(`sends one packet per connection (${uwsgi.title} ${plugins}), and no body`, {
      skip: skipUnless(uwsgi.needs),
    }, async () => {
      const spool = spoolDirectory()
      const peer = startUwsgi({
        uwsgi,
        spool,
        handler: '',
        args: [...withPlugins(uwsgi, plugins), '--socket', '127.0.0.1:0', '--spooler-frequency', '3600'],
      })
      const address = `127.0.0.1:${await portOf(peer)}`
      await peer.waitFor(/spawned uWSGI worker 1/)
      const transport = open(address)
      await Promise.all(Array.from({ length: 100 }, (_, i) => transport.enqueue(requestFrom({ i }))))
      assert.equal(leftIn(spool).length, 100)
      await assert.rejects(transport.enqueue(requestFrom({ spooler: '/nope' })), { code: 'SOCKET_REFUSED' })
      await assert.rejects(transport.enqueue(requestFrom({}, { body: 'x' })), { code: 'SOCKET_BODYLESS' })
      assert.equal(leftIn(spool).length, 100)
    })
})
