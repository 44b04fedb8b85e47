import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { actionFor } from '#src/doors/control/actions.js'
import { ControlConnection } from '#src/doors/control/connection.js'
import { workspace } from '../helpers/workspace.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')

describe('a client that asks again and again', () => {
  it('leaves nothing of earlier requests behind, and its departure is noticed by the request in progress', async () => {
    const path = join(workspace(), 'control')
    const server = createServer().listen(path)
    const arriving = once(server, 'connection')
    const client = connect(path)
    const [socket] = (await arriving) as [Socket]
    const awaited: Array<WeakRef<object>> = []
    const watch = actionFor('viewer', {}, (_, call) => {
      const watcher = {}
      awaited.push(new WeakRef(watcher))
      void call.whenGone.then(() => watcher)
    })
    let missed = () => {}
    const isMissed = new Promise<void>(resolve => {
      missed = resolve
    })
    const stay = actionFor('viewer', {}, (_, call) => {
      call.send('begun')
      return call.whenGone.then(missed)
    })
    new ControlConnection(socket, 'viewer', { watch, stay }, () => {})
    const lines = createInterface(client)
    const ask = (verb: string) => client.write(`${JSON.stringify({ v: 1, id: 1, verb })}\n`)
    for (const verb of ['watch', 'watch', 'watch', 'stay']) {
      ask(verb)
      await once(lines, 'line')
    }
    gc()
    assert.equal(awaited.filter(each => each.deref() !== undefined).length, 0)
    client.destroy()
    await isMissed
    server.close()
  })

  it('is still answered after it has ended its side of the connection, and its departure is noticed', async () => {
    const path = join(workspace(), 'control')
    const server = createServer({ allowHalfOpen: true }).listen(path)
    let missed = () => {}
    const isMissed = new Promise<void>(resolve => {
      missed = resolve
    })
    const stay = actionFor('viewer', {}, async (_, call) => {
      call.send('begun')
      await call.whenGone
      missed()
    })
    let answer = () => {}
    const wait = actionFor('viewer', {}, (_, call) => {
      call.send('begun')
      return new Promise<void>(resolve => {
        answer = resolve
      })
    })
    const ask = async (verb: string) => {
      const arriving = once(server, 'connection')
      const client = connect({ path, allowHalfOpen: true })
      const [socket] = (await arriving) as [Socket]
      new ControlConnection(socket, 'viewer', { stay, wait }, () => {})
      const lines = createInterface(client)
      client.write(`${JSON.stringify({ v: 1, id: 1, verb })}\n`)
      assert.match(String(await once(lines, 'line')), /begun/)
      return { client, lines }
    }
    const half = await ask('wait')
    half.client.end()
    assert.match(String(await once(half.lines, 'line')), /"event":null/)
    answer()
    assert.match(String(await once(half.lines, 'line')), /"ok":null/)
    const { client } = await ask('stay')
    client.destroy()
    await isMissed
    server.close()
  })
})
