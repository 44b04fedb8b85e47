import type { Redis } from './libraries.js'

/**
 * Leaves a Redis as soon as a sentinel says that another one is the master. Until the sentinels make it a replica, some ten seconds
 * later, it would take writes that are lost.
 *
 * @param sentinels clients, not yet connected. They keep no process alive, and end with the client
 */
export function followingSentinels(client: Redis, master: string, sentinels: readonly Redis[]): Redis {
  for (const sentinel of sentinels) {
    sentinel.on('error', () => {}) // whoever needs a sentinel is told by the client
    sentinel.on('connect', () => sentinel.stream.unref())
    sentinel.on('message', (_channel: string, said: string) => {
      const [name, , , host, port] = said.split(' ')
      const { remoteAddress, remotePort } = client.stream
      if (name === master && (remoteAddress !== host || String(remotePort) !== port)) client.disconnect(true)
    })
  }
  client.on('connect', () => {
    for (const sentinel of sentinels)
      if (sentinel.status === 'wait' || sentinel.status === 'end')
        sentinel.subscribe('+switch-master').catch(() => {})
  })
  return client.on('end', () => {
    for (const sentinel of sentinels) sentinel.disconnect()
  })
}
