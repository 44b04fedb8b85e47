import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { Client, exchange, type Pair, PONG, portOf, REFUSED, STORED, wire } from '../helpers/wire.js'
import { spoolDirectory } from '../helpers/workspace.js'

const open = (pairs: readonly Pair[]) => wire(pairs, { modifier2: 1 })
const withBody = (pairs: readonly Pair[], body: Buffer, modifier2 = 0) =>
  Buffer.concat([wire([...pairs, ['CONTENT_LENGTH', String(body.length)]], { modifier2 }), body])

/** Starts a daemon that stores tasks and runs none. */
async function server(ini: Readonly<Record<string, string | number | boolean | readonly string[]>> = {}) {
  const spool = spoolDirectory()
  const daemon = await startDaemon({
    spool,
    isAside: true,
    ini: { socket: '127.0.0.1:0', ...ini },
  })
  return { spool, daemon, port: await portOf(daemon) }
}

const contents = (spool: string) => leftIn(spool).map(path => readFileSync(join(spool, path)))

describe('a connection that is kept open (modifier2 1)', () => {
  it('answers packets in their order until one has modifier2 0', async () => {
    const { spool, port } = await server()
    const client = await Client.to(port)
    await client.send(open([['n', '1']])).got(STORED)
    await client.send(open([['spooler', '/nope']])).got(STORED + REFUSED)
    await client.send(wire([], { modifier1: 100, modifier2: 1 })).got(STORED + REFUSED + PONG)
    await client.send(wire([['n', '2']])).got(STORED + REFUSED + PONG + STORED)
    assert.equal(await client.ended(), 'eof', 'a packet with modifier2 = 0 ends the connection')
    assert.equal(leftIn(spool).length, 2)
  })

  it('takes 300 packets at once, whole or cut anywhere', async () => {
    const { spool, port } = await server()
    const packets = Array.from({ length: 300 }, (_, i) =>
      open([['n', String(i)], ...(i % 7 === 0 ? [['spooler', '/nope'] as Pair] : [])]),
    )
    const stream = Buffer.concat(packets)
    const replies = packets.map((_, i) => (i % 7 === 0 ? REFUSED : STORED)).join('')
    for (const chunkBytes of [stream.length, 101]) {
      const client = await Client.to(port)
      for (let at = 0; at < stream.length; at += chunkBytes) client.send(stream.subarray(at, at + chunkBytes))
      client.half()
      assert.equal(await client.ended(), 'eof')
      assert.equal(client.received, replies)
    }
    assert.equal(leftIn(spool).length, 2 * packets.filter((_, i) => i % 7 !== 0).length)
  })

  it('is closed after socket-keepalive-timeout without a packet', async () => {
    const { port } = await server({ 'socket-keepalive-timeout': 0.3, 'socket-timeout': 30 })
    const client = await Client.to(port)
    await client.send(open([['n', '1']])).got(STORED)
    await client.ended(5000)
  })

  it('ends with a malformed or oversized packet, because the start of the next packet is unknown', async () => {
    const { spool, port } = await server({ 'buffer-size': 100 })
    for (const bad of [
      wire(Buffer.from('\x05\0ab'), { modifier2: 1 }),
      wire(Buffer.alloc(101), { modifier2: 1 }),
    ]) {
      const reply = await exchange(port, Buffer.concat([open([['n', '1']]), bad, open([['n', '2']])]))
      assert.equal(reply, STORED + REFUSED)
    }
    assert.equal(leftIn(spool).length, 2)
  })
})

describe('a body behind a packet (CONTENT_LENGTH)', () => {
  it('is stored behind its packet, and the next packet is read after it', async () => {
    const { spool, port } = await server()
    const body = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7) % 251))
    const stream = Buffer.concat([
      withBody([['n', '1']], body, 1),
      open([['n', '2']]),
      withBody([['n', '3']], Buffer.from('x'), 1),
      withBody([['n', '4']], Buffer.alloc(0)),
    ])
    assert.equal(await exchange(port, stream, 65_000), STORED.repeat(4))
    const expected = [
      Buffer.concat([wire([['n', '1']]), body]),
      wire([['n', '2']]),
      Buffer.concat([wire([['n', '3']]), Buffer.from('x')]),
      wire([['n', '4']]),
    ]
    assert.deepEqual(new Set(contents(spool).map(String)), new Set(expected.map(String)))
  })

  it('reaches the handler', async () => {
    const spool = spoolDirectory()
    const handler = `export default (env, task) => { JOURNAL(Object.keys(env).sort().join() + ' ' + env.body); return task.SPOOL_OK }`
    const daemon = await startDaemon({ spool, handler, ini: { socket: '127.0.0.1:0' } })
    await exchange(await portOf(daemon), withBody([['to', 'joe']], Buffer.from('Dear Joe')))
    await until('the task has run', () => daemon.journal().length === 1)
    assert.deepEqual(daemon.journal(), ['body,spooler_task_name,to Dear Joe'])
  })

  it('is refused before it is sent if it is larger than socket-max-body', async () => {
    const { spool, port } = await server({ 'socket-max-body': 1000 })
    assert.equal(await exchange(port, wire([['CONTENT_LENGTH', '1001']], { modifier2: 1 })), REFUSED)
    assert.equal(await exchange(port, withBody([], Buffer.alloc(1000))), STORED)
    assert.equal(leftIn(spool).length, 1)
  })

  it('that is too large does not keep its client from reading the refusal while it still sends', async () => {
    const { port } = await server({ 'socket-max-body': 1000 })
    const client = (await Client.to(port)).send(withBody([], Buffer.alloc(3_000_000)))
    assert.equal(await client.ended(), 'eof')
    assert.equal(client.received, REFUSED)
  })

  it('leaves nothing in the spool if it ends too early, by a closed connection or by silence', async () => {
    const { spool, port } = await server({ 'socket-timeout': 0.5 })
    const short = withBody([['n', '1']], Buffer.alloc(5000)).subarray(0, 4000)
    const client = (await Client.to(port)).send(short).half()
    await client.ended()
    assert.equal(client.received, REFUSED)
    const silent = (await Client.to(port)).send(short)
    await silent.ended()
    assert.equal(silent.received, REFUSED)
    assert.deepEqual(leftIn(spool), [])
  })

  it('is skipped if its task is refused, so that the connection goes on', async () => {
    const { spool, port } = await server()
    const stream = Buffer.concat([
      withBody([['spooler', '/nope']], Buffer.alloc(200_000, 17), 1),
      wire([['n', '2']]),
    ])
    assert.equal(await exchange(port, stream, 50_000), REFUSED + STORED)
    assert.equal(leftIn(spool).length, 1)
  })

  it('is written to disk while it arrives', async () => {
    const { spool, port } = await server()
    const bytes = 60 * 1024 * 1024
    const client = await Client.to(port)
    client.send(wire([['CONTENT_LENGTH', String(bytes)]]))
    const half = Buffer.alloc(bytes / 2, 'x')
    const stored = () => leftIn(spool).reduce((sum, name) => sum + statSync(join(spool, name)).size, 0)
    client.send(half)
    await until('the first half is in the file', () => stored() >= bytes / 2)
    assert.ok(
      leftIn(spool).every(name => name.startsWith('.')),
      'nothing is a task yet',
    )
    await client.send(half).got(STORED)
    assert.equal(stored(), 4 + bytes)
    client.close()
  })
})
