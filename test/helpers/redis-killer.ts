import { connect, createServer, type Socket } from 'node:net'
import { after } from 'node:test'
import { freePort } from './redis.js'

/** When the kill comes: before the request is sent, or after it is carried out and before its reply comes back. */
type Moment = 'unsent' | 'unanswered'

/** Matches a request that changes or reads tasks. Only these count: how many pieces a greeting comes in depends on the load. */
const SCRIPT = /\r\n(eval|evalsha|hget|pexpire)\r\n/i

/** A proxy before a Redis that can kill the client in the middle of a request. */
export interface Killer {
  readonly port: number
  /** How many requests about tasks have come since it was armed. */
  readonly requests: number
  /** @param nth the number of the request at which `kill` is called, from 1; 0: it is not called */
  arm(nth: number, moment: Moment, kill: () => void): void
}

/** Starts a proxy. To be called outside of hooks, so that the proxy ends when the tests of the file are over. */
export function killerBefore(redisPort: number): Killer {
  let armed: { nth: number; moment: Moment; kill(): void } = { nth: 0, moment: 'unsent', kill() {} }
  let requests = 0
  const sockets = new Set<Socket>()
  const server = createServer(client => {
    const redis = connect(redisPort, '127.0.0.1')
    let isCut = false
    for (const socket of [client, redis]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        redis.destroy()
        sockets.delete(socket)
      })
    }
    client.on('data', bytes => {
      const isLast = SCRIPT.test(bytes.toString('latin1')) && ++requests === armed.nth
      if (isLast && armed.moment === 'unsent') armed.kill()
      else redis.write(bytes)
      isCut ||= isLast
    })
    redis.on('data', bytes => {
      if (isCut) armed.kill()
      else client.write(bytes)
    })
  })
  const port = freePort()
  server.listen(port, '127.0.0.1')
  after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    port,
    get requests() {
      return requests
    },
    arm(nth, moment, kill) {
      requests = 0
      armed = { nth, moment, kill }
    },
  }
}
