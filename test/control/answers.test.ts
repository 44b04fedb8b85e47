import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import { LineBuffer } from '#src/engines/control/line-buffer.js'
import { spoold } from '../helpers/cli.js'
import { controlOf } from '../helpers/control.js'
import { spoolDirectory } from '../helpers/workspace.js'

const MIB = 1024 * 1024
const LARGE = Buffer.alloc(90 * MIB, 'a')

/** Returns a spool whose owner has made the socket of the daemon, which answers as `answer` does. */
async function spoolOf(answer: (socket: Socket) => void): Promise<string> {
  const spool = spoolDirectory()
  mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
  const server = createServer(socket => {
    socket.on('error', () => {}).once('data', () => answer(socket))
  })
  await once(server.listen(controlOf(spool)), 'listening')
  after(() => server.close())
  return spool
}

/** Writes this again and again, until the client has gone. */
const every = (ms: number, text: string) => (socket: Socket) => {
  const timer = setInterval(() => socket.write(text), ms)
  socket.once('close', () => clearInterval(timer))
}

const large = (socket: Socket) => void socket.write(LARGE)

describe('a daemon that misbehaves', () => {
  for (const [what, answer] of Object.entries({ 'a byte now and then': every(100, ' '), '90 MB': large }))
    it(`does not hold up a command for long: ${what}`, async () => {
      const spool = await spoolOf(answer)
      const began = performance.now()
      const [status, quiet, logs] = await Promise.all([
        spoold(['status', spool]),
        spoold(['quiet', spool]),
        spoold(['logs', spool]),
      ])
      assert.ok(performance.now() - began < 30_000)
      const because = /no answer within 5 s|its answer has more than 8388608 bytes/
      assert.match(`${status.stdout}${status.stderr}`, because)
      for (const { code, stderr } of [quiet, logs]) {
        assert.notEqual(code, 0)
        assert.match(stderr, because)
      }
    })

  it('has the given time for its whole answer, including events', async () => {
    const path = controlOf(await spoolOf(every(20, '{"v":1,"id":1,"event":{}}\n')))
    let events = 0
    const event = () => void events++
    await assert.rejects(askDaemon(path, 'x', {}, { timeoutMs: 500, event }), /no answer within 0.5 s/)
    assert.ok(events > 1)
  })

  it('has that time for each line of a stream, and the given silence between two lines', async () => {
    const steady = controlOf(await spoolOf(every(50, '{"v":1,"id":1,"event":{}}\n')))
    let events = 0
    const signal = AbortSignal.timeout(2000)
    const event = () => void events++
    const asked = askDaemon(steady, 'x', {}, { silenceMs: 500, signal, event })
    await assert.rejects(asked, /closed without an answer/)
    assert.ok(events > 10, `${events} events`)
    const dripping = controlOf(await spoolOf(every(50, ' ')))
    const limits = { silenceMs: Number.POSITIVE_INFINITY, timeoutMs: 500 }
    await assert.rejects(askDaemon(dripping, 'x', {}, limits), /no answer within 0.5 s/)
  })
})

describe('a daemon that answers in time', () => {
  it('has answered even if the process that asked reads the answer late', async () => {
    const path = controlOf(
      await spoolOf(socket => {
        socket.write('{"v":1,"id":1,"ok":7}\n')
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300) // all of this process stands still
      }),
    )
    assert.equal(await askDaemon(path, 'x', {}, { timeoutMs: 100 }), 7)
  })
})

describe('received lines', () => {
  it('are found by looking at each byte once, however small the chunks are', () => {
    const lines = new LineBuffer(64 * MIB)
    const chunk = Buffer.alloc(512, 'a')
    const began = process.cpuUsage()
    for (let n = 0; n < 16_384; n++) {
      lines.add(chunk)
      assert.equal(lines.next(), undefined)
    }
    lines.add(Buffer.from('\nrest\n'))
    assert.equal(lines.next()?.length, 8 * MIB)
    assert.equal(lines.next(), 'rest')
    assert.equal(lines.next(), undefined)
    const { user, system } = process.cpuUsage(began)
    assert.ok(user + system < 2_000_000, `${user + system} µs`)
  })

  it('are not kept if they are too long', () => {
    const lines = new LineBuffer(8)
    for (const [text, line] of [
      ['1234567\n', '1234567'],
      ['12', undefined],
      ['34567\n', '1234567'],
      ['1234567', undefined],
      ['8\n', null],
    ] as const) {
      lines.add(Buffer.from(text))
      assert.equal(lines.next(), line, text)
    }
  })
})
