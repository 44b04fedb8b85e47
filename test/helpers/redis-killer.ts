import { connect, createServer, type Socket } from 'node:net'
import { after } from 'node:test'
import { freePort } from './redis.js'

/** What becomes of a request: it never gets there, or its reply does not come back. */
type Moment = 'unsent' | 'unanswered'

/** What changes or reads tasks; how many pieces the greetings of a client come in depends on the load. */
const SCRIPT = /\r\n(eval|evalsha|hget|pexpire)\r\n/i

/** A way to a Redis, on which whoever asks can be killed in the middle. */
export interface Killer {
  readonly port: number
  /** How many requests of tasks have gone through since it was armed. */
  readonly requests: number
  /** @param nth the request at which it kills, from 1; 0: none */
  arm(nth: number, moment: Moment, kill: () => void): void
}

/** Call it outside of hooks, so that it is ended when the tests of the file are over. */
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
