// What a crowd of bad peers on the socket costs a good one.
import { fork } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { encodePacket } from '../dist/protocol/packet.js'
import { memoryOf, percentile, startTaker, until, withDirectory } from './harness.mjs'

const pair = (key, value) => [Buffer.from(key), Buffer.from(value)]
const TASK = encodePacket([pair('to', 'joe')])
const bodied = encodePacket([pair('CONTENT_LENGTH', '100000')])
const PING = Buffer.of(100, 0, 0, 1)

/** What each kind sends at once, and what it drips, a byte a second. */
const KINDS = [
  { name: 'a byte a second', first: Buffer.alloc(0), drip: encodePacket([pair('a', 'b'.repeat(60_000))]) },
  {
    name: 'half packets',
    first: encodePacket([pair('a', 'b'.repeat(60_000))]).subarray(0, 55_000),
    drip: Buffer.alloc(1000),
  },
  {
    name: 'wrong sizes',
    first: Buffer.concat([Buffer.of(17, 255, 255, 1), Buffer.alloc(30_000, 255)]),
    drip: Buffer.alloc(1000),
  },
  {
    name: 'a body that is too short',
    first: Buffer.concat([bodied, Buffer.alloc(90_000)]),
    drip: Buffer.alloc(1000),
  },
  {
    name: 'a body that is too long',
    first: Buffer.concat([bodied, Buffer.alloc(150_000)]),
    drip: Buffer.alloc(1000),
  },
  {
    name: 'never reading',
    first: Buffer.concat(Array.from({ length: 300 }, () => PING)),
    drip: PING,
    isDeaf: true,
  },
]

function peer(port, { first, isDeaf }) {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  if (isDeaf) socket.pause()
  else socket.resume()
  socket.write(first)
  return socket
}

/** One task over a connection of its own: ms until its reply. */
function exchange(port) {
  return new Promise((resolve, reject) => {
    const begun = performance.now()
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => socket.write(TASK))
    socket.once('error', reject)
    socket.once('data', reply => {
      resolve(performance.now() - begun)
      if (reply.toString('hex') !== 'ff000001') reject(new Error(`answered ${reply.toString('hex')}`))
      socket.destroy()
    })
  })
}

export const title = '2,000 bad peers on a socket'
export const about = `tmpfs; ${KINDS.map(({ name }) => name).join(', ')}, in equal parts, for 10 s. A good client
beside them enqueues one task after the other, 20 a second. Wanted: p99 under 50 ms, memory under 200 MB.`

export async function run({ scale, say }) {
  const crowd = Math.round(2000 * scale)
  return withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    mkdirSync(spool, { mode: 0o755 })
    const daemon = startTaker(directory, spool)
    try {
      const port = await until('it listens', () => /:(\d+) \(port auto-assigned\)/.exec(daemon.log())?.[1])
      await until('it serves', () => daemon.log().includes('is running'))
      const alone = await times(port, 100)
      const memoryBefore = memoryOf(daemon.pid)
      const peers = fork(fileURLToPath(import.meta.url), [String(port), String(crowd)])
      const among = await times(port, 200)
      peers.kill()
      say(`p99 ${percentile(among, 99).toFixed(1)} ms, ${memoryOf(daemon.pid).toFixed(0)} MB`)
      const row = (name, ms, memory) => ({
        case: name,
        'median, ms': percentile(ms, 50),
        'p99, ms': percentile(ms, 99),
        'memory at most, MB': memory,
      })
      return {
        rows: [
          row('a good client alone', alone, memoryBefore),
          row(`among ${crowd} bad peers`, among, memoryOf(daemon.pid)),
        ],
      }
    } finally {
      await daemon.stop()
    }
  })
}

/** The bad peers, in a process of their own: their work is not to slow down the good client. */
function crowdOf(port, count) {
  const peers = Array.from({ length: count }, (_, i) => {
    const kind = KINDS[i % KINDS.length]
    return { kind, at: 0, socket: peer(port, kind) }
  })
  setInterval(() => {
    for (const each of peers) {
      if (!each.socket.destroyed) each.socket.write(each.kind.drip.subarray(each.at, ++each.at))
    }
  }, 1000)
}

/** Tasks, 20 a second, one after the other. */
async function times(port, count) {
  const ms = []
  for (let i = 0; i < count; i++) {
    ms.push(await exchange(port))
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  return ms
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  crowdOf(Number(process.argv[2]), Number(process.argv[3]))
