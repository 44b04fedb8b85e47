import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import type { Daemon } from './daemon.js'
import { childrenOf } from './process.js'

interface Answer {
  readonly status: number | undefined
  readonly headers: NodeJS.Dict<string | string[]>
  readonly text: string
}

/** Sends an HTTP request to a loopback port, on a connection of its own. */
export function ask(
  port: number,
  path = '/',
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, response => {
      let text = ''
      response.on('data', data => {
        text += data
      })
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }))
    })
    asked.on('error', reject)
    asked.end()
  })
}

/** Returns the pid of a daemon's exporter, which publishes its metrics. */
export function exporterOf(daemon: Daemon): number | undefined {
  return childrenOf(daemon.pid).find(pid => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('exporter.cjs')
    } catch {
      return false // it has ended
    }
  })
}
