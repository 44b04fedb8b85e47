import assert from 'node:assert/strict'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { Client, exchange, portOf, REFUSED, STORED, wire } from '../helpers/wire.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** How many bad peers there are: fewer if this process may not open as many descriptors. */
const CROWD = Math.min(isLong ? 2000 : 300, Math.floor((descriptors() - 100) / 2))
const TASK = wire([['to', 'joe']])

async function server(ini: Readonly<Record<string, string | number | boolean>> = {}) {
  const spool = spoolDirectory()
  const daemon = await startDaemon({
    spool,
    isAside: true,
    ini: { socket: '127.0.0.1:0', ...ini },
  })
  return { spool, daemon, port: await portOf(daemon) }
}

/** What a bad peer sends first, and what it sends after that, one byte at a time. */
const BAD_PEERS: Readonly<Record<string, readonly [first: Buffer, then: Buffer]>> = {
  'drips a packet': [Buffer.alloc(0), wire([['a', 'b'.repeat(5000)]])],
  'sends half a packet': [wire([], { size: 60_000 }), Buffer.alloc(0)],
  'drips a body': [wire([['CONTENT_LENGTH', '5000']]), Buffer.alloc(5000)],
  'sends less than it announced': [
    Buffer.concat([wire([['CONTENT_LENGTH', '5000']]), Buffer.alloc(100)]),
    Buffer.alloc(0),
  ],
  'says nothing': [Buffer.alloc(0), Buffer.alloc(0)],
  'never leaves after its reply': [Buffer.concat([TASK, TASK]), Buffer.alloc(5000)],
}

describe('a crowd of bad peers', () => {
  it('is disconnected by the deadlines while a good client is served', { timeout: 120_000 }, async () => {
    const { spool, port } = await server({
      'socket-timeout': 2,
      'socket-request-timeout': 4,
      'socket-max-connections': 10_000,
    })
    const kinds = Object.values(BAD_PEERS)
    const crowd = await Promise.all(
      Array.from({ length: CROWD }, async (_, i) => {
        const [first, then] = kinds[i % kinds.length] ?? [TASK, TASK]
        return { client: (await Client.to(port)).send(first), then }
      }),
    )
    let at = 0
    const dripping = setInterval(() => {
      for (const { client, then } of crowd)
        if (client.end === 'open' && at < then.length) client.send(then.subarray(at, at + 1))
      at++
    }, 500)
    let served = 0
    while (crowd.some(({ client }) => client.end === 'open')) {
      assert.equal(await exchange(port, TASK), STORED)
      served++
    }
    clearInterval(dripping)
    for (const { client } of crowd) client.close()
    const leaving = Object.keys(BAD_PEERS).indexOf('never leaves after its reply')
    const tasks = crowd.filter((_, i) => i % kinds.length === leaving).length
    assert.equal(leftIn(spool).length, served + tasks, 'only the whole tasks are stored')
    assert.ok(leftIn(spool).every(name => !name.startsWith('.')))
  })

  it('costs the peers that have been silent for longest their connections, and never an honest client', async () => {
    const { port } = await server({
      'socket-max-connections': 10,
      'socket-timeout': 600,
      'socket-request-timeout': 600,
    })
    const silent: Client[] = []
    for (let i = 0; i < 40; i++) silent.push((await Client.to(port)).send(TASK.subarray(0, i % 9)))
    assert.equal(await exchange(port, TASK), STORED)
    await until('31 silent peers are gone', () => silent.filter(({ end }) => end !== 'open').length >= 31)
    assert.deepEqual(
      silent.slice(31).map(({ end }) => end),
      Array.from({ length: 9 }, () => 'open'),
      'the latest connections stay open',
    )
    for (const client of silent) client.close()
  })

  it('is dropped if a peer never reads its replies', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 's')
    const daemon = await startDaemon({ spool, ini: { socket: path, 'socket-timeout': 1 } })
    const client = await Client.to(path)
    client.socket.pause()
    const pings = Buffer.concat(
      Array.from({ length: 10_000 }, () => wire([], { modifier1: 100, modifier2: 1 })),
    )
    const broken = new Promise(resolve => client.socket.once('close', resolve))
    for (let i = 0; i < 100; i++) client.send(pings)
    await broken
    assert.equal(client.end, 'reset')
    assert.equal(await exchange(path, TASK), STORED)
    assert.ok(daemon.isRunning)
  })

  it('cannot fill the log with refusals, or forge a line of it', async () => {
    const { daemon, port } = await server()
    const bad = wire([['spooler', '/nope\nfake line']], { modifier2: 1 })
    const client = await Client.to(port)
    await client.send(Buffer.concat(Array.from({ length: 500 }, () => bad))).got(REFUSED.repeat(500))
    client.close()
    daemon.child.kill('SIGTERM')
    await daemon.code() // then the log is complete
    assert.equal(daemon.output.split('unable to find spooler').length - 1, 20)
    assert.doesNotMatch(daemon.output, /^fake line/m)
  })
})

/** Files that libraries of Node read when they are first used or need memory. */
const OF_NODE = new Set([
  '/sys/devices/system/cpu/cpu0/tsc_freq_khz',
  '/sys/devices/system/cpu/online',
  '/proc/sys/vm/overcommit_memory',
])

/** Returns the paths of a trace, in its order. A name below an open directory has the path by which that was opened. */
function pathsOf(trace: string, opened: Map<string, string>): string[] {
  const begun = new Map<string, string>()
  return trace.split('\n').flatMap(line => {
    const [, pid = '', text = ''] = /^(\d+) +(.*)$/.exec(line) ?? []
    if (text.endsWith('<unfinished ...>')) {
      begun.set(pid, text.slice(0, -'<unfinished ...>'.length))
      return []
    }
    const call = text.replace(/^<\.\.\. \w+ resumed>/, () => begun.get(pid) ?? '')
    const paths = [...call.matchAll(/(?:(\d+)?(?:<([^">]*)>)?, )?"((?:[^"\\]|\\.)*)"/g)].map(
      ([, number = '', known, path = '']) => {
        const directory = known ?? opened.get(number)
        if (directory !== undefined && path !== '' && !path.startsWith('/')) return `${directory}/${path}`
        return path.replace(/^\/proc\/self\/fd\/(\d+)/, (unknown, fd) => opened.get(fd) ?? unknown)
      },
    )
    const [, fd] = /^open.* = (\d+)(?:<.*>)?$/.exec(call) ?? []
    if (fd !== undefined) opened.set(fd, paths[0] ?? '')
    // an empty path is an open file itself; a name below the descriptor of / would begin with two slashes
    return paths.filter(path => path !== '').map(path => path.replace(/^\/+/, '/'))
  })
}

/** Returns the paths of a process's open files by their descriptors. */
function openedBy(pid: number): Map<string, string> {
  const directory = `/proc/${pid}/fd`
  return new Map(readdirSync(directory).map(fd => [fd, readlinkSync(`${directory}/${fd}`)]))
}

describe('names from the network', () => {
  it('lead nowhere outside the spool', { skip: skipUnless('strace'), timeout: 120_000 }, async () => {
    const { spool, daemon, port } = await server({ 'spooler-quiet': true })
    const trace = join(dirname(spool), 'trace')
    const strace = new TestProcess('strace', [
      '-f',
      '-qq',
      '-y', // shows open directories by their paths
      '-s',
      '600',
      '-e',
      'trace=%file',
      '-p',
      String(daemon.pid),
      '-o',
      trace,
    ])
    await until('the daemon is traced', () =>
      /TracerPid:\s+[1-9]/.test(readFileSync(`/proc/${daemon.pid}/status`, 'utf8')),
    )
    const opened = openedBy(daemon.pid)
    const names = hostileNames(dirname(spool))
    assert.ok(names.length >= 2000)
    const requests = names.flatMap(name => [
      wire([['priority', name]], { modifier2: 1 }),
      wire([['spooler', name]], { modifier2: 1 }),
    ])
    const client = await Client.to(port)
    client.send(Buffer.concat(requests)).half()
    await client.ended(60_000)
    assert.equal(client.received.length, requests.length * 8)
    strace.child.kill('SIGTERM')
    await strace.exited
    const touched = pathsOf(readFileSync(trace, 'utf8'), opened)
    assert.ok(
      touched.some(path => path.startsWith(`${spool}/`)),
      `the trace has seen something in ${spool}, but only: ${touched.slice(-20).join(' ')}`,
    )
    // root opens the spool component by component from /
    const isOnTheWay = (path: string) => `${spool}/`.startsWith(path === '/' ? path : `${normalize(path)}/`)
    const isInside = (path: string) => path.startsWith(`${spool}/`) && !path.includes('..')
    assert.deepEqual(
      touched.filter(path => !OF_NODE.has(path) && !isInside(path) && !isOnTheWay(path)),
      [],
    )
    const [good, bad] = [client.received.split(STORED).length - 1, client.received.split(REFUSED).length - 1]
    assert.equal(leftIn(spool).length, good)
    assert.equal(good + bad, requests.length)
  })
})

/** Returns ways out of a directory, and other names that have broken programs. */
function hostileNames(outside: string): Buffer[] {
  const ups = [
    '..',
    '.',
    '...',
    '%2e%2e',
    '..%00',
    '\u2025',
    '..\\',
    '',
    '~',
    '$HOME',
    '`id`',
    '-rf',
    '*',
    '5',
  ]
  const cuts = ['/', '//', '/./', '\\', '\0', '\n', '\r\n', '\t', ' ', '\u2215', '%2f', ':']
  const ends = [
    '',
    'x',
    '5',
    outside,
    `${outside}/x`,
    '/etc/passwd',
    '/proc/self/cwd/x',
    'x'.repeat(300),
    '9'.repeat(256),
    '\u0665',
    '\xff\xfe',
    '__proto__',
  ]
  const names = ups.flatMap(up => cuts.flatMap(cut => ends.map(end => `${up}${cut}${end}`)))
  return [...new Set([...names, ...ends, ...ups])]
    .filter(name => name !== '')
    .map(name => Buffer.from(name, 'latin1'))
}

function descriptors(): number {
  return Number(/^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 1024)
}
