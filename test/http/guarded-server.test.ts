import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type AddressInfo, connect, createServer } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { GuardedServer } from '#src/doors/http/guarded-server.js'
import { until } from '../helpers/until.js'

const HOST = 'Host: 127.0.0.1\r\n'
const GET = `GET / HTTP/1.1\r\n${HOST}\r\n`

/** Starts a server whose answers wait until they are released. */
async function listening(test: TestContext) {
  const begun: Array<() => void> = []
  const guarded = new GuardedServer({
    hosts: new Set(),
    headers: { 'X-Ours': 'yes' },
    requestMs: 5000,
    answerMs: 5000,
    mostBodyBytes: 10,
    async answer(request, response) {
      await new Promise<void>(resolve => begun.push(resolve))
      for await (const _ of request);
      response.end('answered')
    },
  })
  const server = createServer({ pauseOnConnect: true }, socket => guarded.accept(socket))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  test.after(() => server.close())
  const { port } = server.address() as AddressInfo
  /** Sends a text. @returns what comes back before the connection is closed */
  const send = (text: string) =>
    new Promise<string>(resolve => {
      let heard = ''
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      socket.on('data', data => {
        heard += data
        if (heard.endsWith('answered')) socket.destroy()
      })
      socket.on('close', () => resolve(heard))
      socket.write(text)
      test.after(() => socket.destroy())
    })
  return { begun, send }
}

describe('a guarded server', () => {
  it('refuses a body that is too large, or whose length is not said, before it is read', async test => {
    const { begun, send } = await listening(test)
    const large = await send(`POST / HTTP/1.1\r\n${HOST}Content-Length: 11\r\n\r\n`)
    assert.match(large, /^HTTP\/1.1 413 /)
    assert.match(large, /x-ours: yes/i)
    assert.match(large, /expected a request of at most 10 bytes, got 11/)
    const unsaid = await send(`POST / HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n`)
    assert.match(unsaid, /^HTTP\/1.1 411 /)
    assert.equal(begun.length, 0)
    const answer = send(`POST / HTTP/1.1\r\n${HOST}Content-Length: 10\r\n\r\n0123456789`)
    await until('the answer is being made', () => begun.length === 1)
    begun[0]?.()
    assert.match(await answer, /^HTTP\/1.1 200 /)
  })

  it('refuses a request with two Host headers, the same or not', async test => {
    const { begun, send } = await listening(test)
    for (const second of [HOST, 'host: elsewhere\r\n']) {
      const refused = await send(`GET / HTTP/1.1\r\n${HOST}${second}\r\n`)
      assert.match(refused, /^HTTP\/1.1 400 /)
      assert.match(refused, /expected one Host header, got several/)
    }
    assert.equal(begun.length, 0)
  })

  it('makes 32 answers at a time, and tells other clients to try again', async test => {
    const { begun, send } = await listening(test)
    const all = Array.from({ length: 32 }, () => send(GET))
    await until('all answers are being made', () => begun.length === 32)
    const more = await send(GET)
    assert.match(more, /^HTTP\/1.1 503 /)
    assert.match(more, /retry-after: 1/i)
    assert.match(more, /too many requests at once: try again/)
    for (const release of begun) release()
    for (const answer of await Promise.all(all)) assert.match(answer, /^HTTP\/1.1 200 /)
    const last = send(GET)
    await until('a further answer is being made', () => begun.length === 33)
    begun[32]?.()
    assert.match(await last, /^HTTP\/1.1 200 /)
  })

  it('answers nothing to a client that sends several requests at once', async test => {
    const { begun, send } = await listening(test)
    let heard = 0
    const count = () => heard++
    subscribe('http.server.request.start', count)
    test.after(() => unsubscribe('http.server.request.start', count))
    assert.equal(await send(GET.repeat(1500)), '')
    assert.ok(heard <= 32, `Node has made objects for ${heard} requests`)
    assert.equal(begun.length, 0)
  })
})
