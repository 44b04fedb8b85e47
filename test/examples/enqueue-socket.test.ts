import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { basename, dirname, join, relative } from 'node:path'
import { after, describe, it } from 'node:test'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { type Requirement, skipUnless } from '../helpers/requires.js'
import { UWSGIS, type Uwsgi, withPlugins } from '../helpers/uwsgi.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'
import { hasNul, type Row, storedRows } from './enqueue-table.js'
import { driverSource, hexFields, prepare, WRITERS, type Writer } from './enqueue-writers.js'

/** The networked sender of a language, and what it needs for unix sockets. */
interface Sender extends Writer {
  readonly forPaths: readonly Requirement[]
  readonly hasAbstract: boolean
  readonly directory: string
  readonly command: readonly string[]
}

const SENDERS: readonly Sender[] = [
  sender('Python', 'sender.py', [], true),
  sender('Perl', 'sender.pl', [], true),
  sender('Ruby', 'sender.rb', [], true),
  sender('Bash', 'sender.bash', ['socat'], false),
]

function sender(
  language: string,
  driver: string,
  forPaths: readonly Requirement[],
  hasAbstract: boolean,
): Sender {
  const writer = WRITERS.find(each => each.language === language)
  assert.ok(writer)
  const directory = workspace()
  const command = prepare(writer, directory, driver, readFileSync(driverSource(driver)))
  return { ...writer, forPaths, hasAbstract, directory, command }
}

interface Sent {
  readonly code: number | null
  readonly output: string
}

async function send(
  sender: Sender,
  address: string,
  rows: readonly Row[],
  options: { spooler?: string; seconds?: number } = {},
): Promise<Sent> {
  const input = rows
    .map(
      ({ at, priority, body, dictionary }) =>
        `${hexFields([address, at, priority, body, options.spooler, ...dictionary.flat()])}\n`,
    )
    .join('')
  const args = [...sender.command, `${options.seconds ?? 10}`]
  const process = new TestProcess('env', args, { cwd: sender.directory, input })
  return { code: await process.code(30_000), output: process.output }
}

const joe: Row = { name: 'joe', dictionary: [[Buffer.from('to'), Buffer.from('joe')]] }

for (const sender of SENDERS) {
  for (const uwsgi of UWSGIS)
    describe(`the sender in ${sender.language} to ${uwsgi.title}`, {
      skip: skipUnless(sender.needs, uwsgi.needs),
    }, () => {
      const rows = storedRows().filter(row => row.body === undefined && !(sender.lacksNul && hasNul(row)))

      it(`stores ${rows.length} rows of the table over TCP`, async () => {
        const { spool, port } = await startServer(uwsgi, '127.0.0.1:0')
        assert.deepEqual(await send(sender, `127.0.0.1:${port}`, rows), { code: 0, output: '' })
        assertStored(spool, rows)
      })

      it('stores the same rows over a unix socket', { skip: skipUnless(...sender.forPaths) }, async () => {
        const address = join(workspace(), 'a.sock')
        const { spool } = await startServer(uwsgi, address)
        assert.deepEqual(await send(sender, address, rows), { code: 0, output: '' })
        assertStored(spool, rows)
      })

      if (sender.hasAbstract)
        it('stores a task over an abstract unix socket', async () => {
          const address = `@spoold-test-${process.pid}-${sender.language}`
          const { spool } = await startServer(uwsgi, address)
          assert.deepEqual(await send(sender, address, [joe]), { code: 0, output: '' })
          assert.equal(leftIn(spool).length, 1)
        })

      it('tells a refusal from a missing answer', async () => {
        const { spool, port } = await startServer(uwsgi, '127.0.0.1:0', '--buffer-size', '4096')
        const address = `127.0.0.1:${port}`
        const refused = await send(sender, address, [joe], { spooler: '/nowhere' })
        assert.notEqual(refused.code, 0)
        assert.ok(refused.output.includes(`${address} did not store the task`), refused.output)
        const tooLarge: Row = { name: '', dictionary: [[Buffer.from('to'), Buffer.alloc(5000, 'x')]] }
        const unanswered = await send(sender, address, [tooLarge])
        assert.notEqual(unanswered.code, 0)
        assert.match(unanswered.output, /its buffer-size may be smaller/)
        assert.deepEqual(await send(sender, address, [joe], { spooler: spool }), { code: 0, output: '' })
        assert.equal(leftIn(spool).length, 1)
      })
    })

  describe(`the sender in ${sender.language}`, { skip: skipUnless(sender.needs) }, () => {
    it('announces a body by CONTENT_LENGTH and sends it behind the packet', async () => {
      const body = Buffer.from([...Array(256).keys()])
      const announced = Buffer.concat([Buffer.from('\x0e\0CONTENT_LENGTH\x03\x00256', 'latin1'), body])
      const expected = Buffer.concat([Buffer.from('111e00000200746f03006a6f65', 'hex'), announced])
      const server = await startPeer((socket, received) => {
        if (received.length >= expected.length) socket.end(Buffer.from('ff000001', 'hex'))
      })
      assert.deepEqual(await send(sender, server.address, [{ ...joe, body }]), { code: 0, output: '' })
      assert.equal(server.received().toString('hex'), expected.toString('hex'))
    })

    it('reports a refusal that arrives before it has sent the whole body', async () => {
      const server = await startPeer(socket => {
        socket.pause()
        socket.write(Buffer.from('ff000000', 'hex'), () => socket.destroy()) // with unread bytes: a reset
      })
      const large = { ...joe, body: Buffer.alloc(8 * 1024 * 1024, 'x') }
      const { code, output } = await send(sender, server.address, [large], { seconds: 2 })
      assert.notEqual(code, 0)
      assert.ok(output.includes(`${server.address} did not store the task`), output)
    })

    it('gives up when the server does not answer', async () => {
      const server = await startPeer(() => {})
      const { code, output } = await send(sender, server.address, [joe], { seconds: 1 })
      assert.notEqual(code, 0)
      assert.ok(output.includes(`${server.address} did not answer`), output)
    })

    it('reports a server that does not speak the uwsgi protocol', async () => {
      const server = await startPeer(socket => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
      const { code, output } = await send(sender, server.address, [joe])
      assert.notEqual(code, 0)
      assert.ok(output.includes(`${server.address} does not speak the uwsgi protocol`), output)
    })

    it('reports a refused connection when nothing listens', async () => {
      const server = await startPeer(() => {})
      await server.close()
      const { code, output } = await send(sender, server.address, [joe])
      assert.notEqual(code, 0)
      assert.match(output, /refused/i)
    })

    it('sends nothing if the priority is not digits', async () => {
      const server = await startPeer(() => {})
      const { code, output } = await send(sender, server.address, [{ ...joe, priority: '../x' }])
      assert.notEqual(code, 0)
      assert.match(output, /priority must be digits/)
      assert.equal(server.received().length, 0)
    })
  })
}

/** Starts a uWSGI that stores what comes to its socket, and runs nothing. */
async function startServer(
  uwsgi: Uwsgi,
  socket: string,
  ...args: string[]
): Promise<{ spool: string; port: number }> {
  const spool = spoolDirectory()
  const limits = args.length > 0 ? args : ['--buffer-size', '65535']
  const options = [
    ...withPlugins(uwsgi, 'spooler'),
    '--master',
    '--die-on-term',
    '--socket',
    socket,
    '--spooler-external',
    spool,
  ]
  const peer = new TestProcess(uwsgi.command, [...options, ...limits], { cwd: dirname(spool) })
  await peer.waitFor(/spawned uWSGI worker 1/)
  return { spool, port: Number(/bound to TCP address 127\.0\.0\.1:(\d+)/.exec(peer.output)?.[1]) }
}

/** Asserts that the rows are stored, in the order of uWSGI's counter, which is the fourth part from the end of a name. */
function assertStored(spool: string, rows: ReturnType<typeof storedRows>): void {
  const counter = (name: string) => Number(basename(name).split('_').at(-4))
  const names = leftIn(spool).sort((a, b) => counter(a) - counter(b))
  assert.equal(names.length, rows.length)
  for (const [i, row] of rows.entries()) {
    const path = join(spool, names[i] ?? '')
    assert.equal(readFileSync(path).toString('hex'), row.bytes.toString('hex'), row.name)
    assert.equal(relative(spool, dirname(path)) || '.', row.directory, row.name)
    if (row.mtime !== null) assert.equal(Math.floor(statSync(path).mtimeMs / 1000), row.mtime, row.name)
  }
}

interface Peer {
  readonly address: string
  readonly received: () => Buffer
  readonly close: () => Promise<void>
}

/** Starts a server of the test that keeps what it receives. */
async function startPeer(answer: (socket: Socket, received: Buffer) => void): Promise<Peer> {
  let received = Buffer.alloc(0)
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', chunk => {
      received = Buffer.concat([received, chunk])
      answer(socket, received)
    })
  })
  const close = () =>
    new Promise<void>(resolve => {
      for (const socket of sockets) socket.destroy()
      server.close(() => resolve())
    })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  after(close)
  const address = server.address()
  assert.ok(address !== null && typeof address === 'object')
  return { address: `127.0.0.1:${address.port}`, received: () => received, close }
}
