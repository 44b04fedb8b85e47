// The effect of many misbehaving peers on the socket on a well-behaved one.
import { fork } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { encodePacket } from '../build/src/formats/protocol/packet.js'
import { memoryOf, percentile, startTaker, until, withDirectory } from './harness.mjs'

const pair = (key, value) => [Buffer.from(key), Buffer.from(value)]
const TASK = encodePacket([pair('to', 'joe')])
const KEPT_TASK = Buffer.from(TASK)
KEPT_TASK[3] = 1
const bodied = encodePacket([pair('CONTENT_LENGTH', '100000')])
const PING = Buffer.of(100, 0, 0, 1)

/** For each kind of peer: the bytes that it sends at once, and those that it sends one per second. */
const KINDS = [
  {
    name: 'one byte per second',
    first: Buffer.alloc(0),
    drip: encodePacket([pair('a', 'b'.repeat(60_000))]),
  },
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

/** Sends a task over its own connection. Resolves with the time to its reply, in ms. */
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

const MOST_CONNECTIONS = 10

/**
 * As `exchange`, but the returned function sends all its tasks over one persistent connection. As any client that keeps one, it opens
 * another where the server has closed it to make room for others.
 */
function keptOpen() {
  let socket
  return async port => {
    const begun = performance.now()
    for (let i = 0; i < MOST_CONNECTIONS; i++) {
      if (socket?.writable !== true)
        socket = connect({ port, host: '127.0.0.1', noDelay: true }).on('error', () => {}) // 'close' follows
      socket.write(KEPT_TASK)
      const reply = await nextOf(socket)
      if (reply === undefined) continue
      if (reply.toString('hex') === 'ff000001') return performance.now() - begun
      throw new Error(`answered ${reply.toString('hex')}`)
    }
    throw new Error(`${MOST_CONNECTIONS} connections were closed before they had an answer`)
  }
}

/** Resolves with the bytes that come next, or with undefined if the socket was closed. */
function nextOf(socket) {
  return new Promise(resolve => {
    const heard = chunk => told(chunk)
    const closed = () => told()
    const told = chunk => {
      socket.off('data', heard).off('close', closed)
      resolve(chunk)
    }
    socket.on('data', heard).on('close', closed)
  })
}

export const title = '2,000 bad peers on a socket'
export const about = `tmpfs; ${KINDS.map(({ name }) => name).join(', ')}, in equal parts, for 5 s. A good client
beside them enqueues 40 tasks per second, one after the other: each over its own connection, or all over one. In lockstep, every bad
peer disconnects and reconnects every 2 s, all at the same moment. The kernel hands out connections in order, and Node accepts one per
turn of its event loop: a client that arrives right after 2,000 others waits until these are accepted, 70 µs each at best, and a client on
a kept connection shares the event loop with them. Where the daemon closes that connection to make room, the client opens it again, and that counts.`

const CASES = [
  { name: 'a good client alone', crowd: 0, rhythm: 'steady', ask: exchange },
  { name: 'among 2,000 bad peers', crowd: 2000, rhythm: 'steady', ask: exchange },
  { name: 'among 2,000 in lockstep', crowd: 2000, rhythm: 'lockstep', ask: exchange },
  {
    name: 'among 2,000 in lockstep, on a connection that is kept',
    crowd: 2000,
    rhythm: 'lockstep',
    ask: keptOpen(),
  },
]

export async function run({ scale, say }) {
  const rows = []
  for (const { name, crowd, rhythm, ask } of CASES) {
    const { ms, memory } = await withDirectory('memory', directory =>
      measure(directory, Math.round(crowd * scale), rhythm, ask),
    )
    const row = {
      case: name,
      'median, ms': percentile(ms, 50),
      'p99, ms': percentile(ms, 99),
      'memory at most, MB': memory,
    }
    say(Object.values(row).join(' '))
    rows.push(row)
  }
  return { rows }
}

async function measure(directory, crowd, rhythm, ask) {
  const spool = join(directory, 'spool')
  mkdirSync(spool, { mode: 0o755 })
  const daemon = startTaker(directory, spool)
  try {
    const port = await until('it listens', () => /:(\d+) \(port auto-assigned\)/.exec(daemon.log())?.[1])
    await until('it serves', () => daemon.log().includes('is running'))
    await times(port, 20, ask) // warm
    const peers = fork(fileURLToPath(import.meta.url), [port, crowd, rhythm].map(String))
    const ms = await times(port, 200, ask)
    peers.kill()
    return { ms, memory: memoryOf(daemon.pid) }
  } finally {
    await daemon.stop()
  }
}

/** The misbehaving peers, in a separate process, so that their work does not slow down the good client. */
function crowdOf(port, count, rhythm) {
  const peers = Array.from({ length: count }, (_, i) => ({ kind: KINDS[i % KINDS.length], at: 0 }))
  const come = () => {
    for (const each of peers) {
      each.socket?.destroy()
      each.socket = peer(port, each.kind)
    }
  }
  come()
  if (rhythm === 'lockstep') setInterval(come, 2000)
  setInterval(() => {
    for (const each of peers) {
      if (!each.socket.destroyed) each.socket.write(each.kind.drip.subarray(each.at, ++each.at))
    }
  }, 1000)
}

/** Sends tasks one after another, 40 per second. */
async function times(port, count, ask) {
  const ms = []
  for (let i = 0; i < count; i++) {
    ms.push(await ask(port))
    await new Promise(resolve => setTimeout(resolve, 25))
  }
  return ms
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  crowdOf(Number(process.argv[2]), Number(process.argv[3]), process.argv[4])
