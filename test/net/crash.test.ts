import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { SocketDestination } from '#src/engines/client/socket-client.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { Client, exchange, portOf, STORED, wire } from '../helpers/wire.js'
import { spoolDirectory } from '../helpers/workspace.js'

const ASIDE = { isAside: true, ini: { socket: '127.0.0.1:0', 'spooler-quiet': true } }
const BODY = Buffer.from('0123456789'.repeat(20))
const PACKET = wire([
  ['to', 'joe'],
  ['CONTENT_LENGTH', String(BODY.length)],
])
const REQUEST = Buffer.concat([PACKET, BODY])
const FILE = Buffer.concat([wire([['to', 'joe']]), BODY])

/** Fails unless every file is a whole task. Returns how many there are. */
function assertWhole(spool: string): number {
  const files = leftIn(spool)
  for (const name of files) assert.deepEqual(readFileSync(join(spool, name)), FILE, name)
  return files.length
}

describe('a client that vanishes', () => {
  it('at any byte leaves a whole task or none', async () => {
    const spool = spoolDirectory()
    const port = await portOf(await startDaemon({ spool, ...ASIDE }))
    const whole: Client[] = []
    for (let at = 0; at <= REQUEST.length; at += at < PACKET.length ? 1 : 7) {
      for (const how of ['resetAndDestroy', 'destroy'] as const) {
        const client = await Client.to(port)
        await new Promise(sent => client.socket.write(REQUEST.subarray(0, at), sent))
        client.socket[how]()
      }
      whole.push((await Client.to(port)).send(REQUEST))
    }
    for (const client of whole) await client.got(STORED)
    await until('no task is being written', () => leftIn(spool).every(name => !name.startsWith('.')))
    assert.ok(assertWhole(spool) >= whole.length)
    for (const client of whole) client.close()
  })

  it('by kill -9 leaves a whole task or none', async () => {
    const spool = spoolDirectory()
    const port = await portOf(await startDaemon({ spool, ...ASIDE }))
    const script = `
      const [port, hex, at] = process.argv.slice(1)
      const bytes = Buffer.from(hex, 'hex')
      const socket = require('node:net').connect(Number(port), '127.0.0.1', () =>
        socket.write(bytes.subarray(0, Number(at)), () => process.kill(process.pid, 'SIGKILL')))`
    const steps = [
      0,
      1,
      4,
      9,
      PACKET.length - 1,
      PACKET.length,
      PACKET.length + 1,
      REQUEST.length - 1,
      REQUEST.length,
    ]
    for (let round = 0; round < (isLong ? 100 : 2); round++)
      await Promise.all(
        steps.map(async at => {
          const client = new TestProcess(process.execPath, [
            '-e',
            script,
            String(port),
            REQUEST.toString('hex'),
            String(at),
          ])
          assert.equal((await client.exited).signal, 'SIGKILL')
        }),
      )
    assert.equal(await exchange(port, REQUEST), STORED)
    await until('no task is being written', () => leftIn(spool).every(name => !name.startsWith('.')))
    assert.ok(assertWhole(spool) >= 1)
  })
})

describe('a daemon that is killed while it stores', () => {
  it('has stored every task that it acknowledged', { timeout: 600_000 }, async () => {
    for (let round = 0; round < (isLong ? 100 : 4); round++) {
      const spool = spoolDirectory()
      const daemon = await startDaemon({ spool, ...ASIDE })
      const transport = new SocketDestination(`127.0.0.1:${await portOf(daemon)}`)
      const acknowledged: number[] = []
      const failures = new Set<string>()
      const callers = Array.from({ length: 20 }, async (_, caller) => {
        for (let i = 0; daemon.isRunning; i++)
          try {
            await transport.store({
              packet: wire([['n', String(caller * 1e6 + i)]]),
              ...(i % 2 === 0 ? {} : { body: BODY }),
            })
            acknowledged.push(caller * 1e6 + i)
          } catch (error) {
            failures.add(String((error as { code?: unknown }).code))
            if (!daemon.isRunning || failures.size > 0) return
          }
      })
      await until('some tasks are stored', () => acknowledged.length > 50 + round * 20)
      daemon.child.kill('SIGKILL')
      await Promise.all([...callers, daemon.exited])
      const names = readdirSync(spool).filter(name => !name.startsWith('.'))
      const stored = new Set(names.map(name => numberOf(readFileSync(join(spool, name)))))
      assert.deepEqual(
        acknowledged.filter(n => !stored.has(n)),
        [],
      )
      assert.deepEqual(
        [...failures].filter(code => !['SOCKET_UNANSWERED', 'SOCKET_UNREACHABLE'].includes(code)),
        [],
      )
    }
  })
})

/** Returns the value of the only key, `n`. */
function numberOf(file: Buffer): number {
  return Number(file.subarray(9, 9 + file.readUInt16LE(7)))
}
