import assert from 'node:assert/strict'
import { readFileSync, realpathSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { startUwsgi, UWSGIS, withPlugins } from '../helpers/uwsgi.js'
import { Client, type Pair, PONG, portOf, REFUSED, STORED, wire } from '../helpers/wire.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** The result of a request: the reply, how the server ended the connection, and the file in the spool. */
interface Answer {
  readonly reply: string
  readonly end: 'eof' | 'reset'
  /** `directory/` + the bytes as hex + ` @mtime` if the mtime is not now; null if nothing was stored. */
  readonly file: string | null
}

interface Case {
  readonly name: string
  readonly send: Buffer | ((spool: string) => Buffer)
  /** The client closes its half of the connection after sending. */
  readonly isHalf?: true
  /** What uWSGI was measured to answer. Each run measures it again. */
  readonly uwsgi: Answer | ((spool: string) => Answer)
  /** What a uWSGI answers that has all plugins. */
  readonly whole?: Answer
  /** What spoold answers where it differs on purpose (docs/compatibility.md). */
  readonly spoold?: Answer | ((spool: string) => Answer)
}

const BUFFER_SIZE = 4096
const ab: Pair = ['a', 'b']
const AB = '0100610100' + '62'
const MALFORMED = Buffer.from('\x05\0ab')
const stored = (file: string): Answer => ({ reply: STORED, end: 'eof', file })
const refused: Answer = { reply: REFUSED, end: 'eof', file: null }
/** A uWSGI that has the plugin symcall for modifier1 18, but no function, answers this. */
const NOT_FOUND = Buffer.from(
  'HTTP/1.0 404 Not Found\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\nNot Found',
).toString('hex')
const silent: Answer = { reply: '', end: 'eof', file: null }
const reset: Answer = { reply: '', end: 'reset', file: null }
const only = (reply: string): Answer => ({ reply, end: 'eof', file: null })
/** Returns the packet of a case that is stored as it was sent. */
const asSent = (pairs: readonly Pair[], directory = '', mtime = ''): Pick<Case, 'send' | 'uwsgi'> => ({
  send: wire(pairs),
  uwsgi: stored(`${directory}${wire(pairs).toString('hex')}${mtime}`),
})

const CASES: readonly Case[] = [
  { name: 'a task', ...asSent([ab]) },
  { name: 'a task, the client half-closed', ...asSent([ab]), isHalf: true },
  {
    name: 'a task with modifier2, which is ignored',
    send: wire([ab], { modifier2: 7 }),
    uwsgi: stored(`11060000${AB}`),
  },
  {
    name: 'a second packet, which is ignored',
    send: Buffer.concat([wire([ab]), wire([['c', 'd']])]),
    uwsgi: stored(`11060000${AB}`),
  },
  { name: 'an empty dictionary', ...asSent([]) },
  { name: 'the same key twice', ...asSent([ab, ['a', 'c']]) },
  { name: 'any bytes in keys and values', ...asSent([[Buffer.of(0, 255, 10), Buffer.of(0, 1, 254)]]) },
  { name: 'a connection that sends nothing', send: Buffer.alloc(0), isHalf: true, uwsgi: silent },
  { name: 'half a header', send: Buffer.of(17, 5), isHalf: true, uwsgi: silent },
  { name: 'half a block', send: wire([ab], { size: 50 }), isHalf: true, uwsgi: silent },
  { name: 'half a block, and then silence', send: wire([ab], { size: 50 }), uwsgi: silent },
  { name: 'a malformed block', send: wire(MALFORMED), uwsgi: stored('1104000005006162'), spoold: refused },
  {
    name: 'an empty key',
    send: wire(Buffer.from('\0\0\x01\0a')),
    uwsgi: stored('110500000000010061'),
    spoold: refused,
  },
  {
    name: 'a malformed block behind a priority',
    send: wire(Buffer.concat([wire([['priority', '8']]).subarray(4), MALFORMED])),
    uwsgi: stored('8/1111000008007072696f72697479010038' + '05006162'),
    spoold: refused,
  },
  { name: 'a packet of buffer-size', ...asSent([['a', 'b'.repeat(BUFFER_SIZE - 5)]]) },
  {
    name: 'one byte more than buffer-size',
    send: wire([['a', 'b'.repeat(BUFFER_SIZE - 4)]]),
    uwsgi: reset,
    spoold: refused,
  },
  {
    name: 'an oversized header alone',
    send: wire([], { size: 5000 }),
    isHalf: true,
    uwsgi: silent,
    spoold: refused,
  },
  { name: 'an unknown spooler', send: wire([['spooler', '/nope']]), uwsgi: refused },
  { name: 'an empty spooler', ...asSent([['spooler', '']]) },
  {
    name: 'the spooler by its path',
    send: spool => wire([['spooler', spool]]),
    uwsgi: spool => stored(wire([['spooler', spool]]).toString('hex')),
  },
  {
    name: 'the spooler by its path with a trailing slash',
    send: spool => wire([['spooler', `${spool}/`]]),
    uwsgi: refused,
    spoold: spool => stored(wire([['spooler', `${spool}/`]]).toString('hex')),
  },
  { name: 'a priority', ...asSent([['priority', '5']], '5/') },
  { name: 'an empty priority', ...asSent([['priority', '']]) },
  {
    name: 'two priorities, of which the last counts',
    ...asSent(
      [
        ['priority', '5'],
        ['priority', '6'],
      ],
      '6/',
    ),
  },
  { name: 'a priority that is no number', ...asSent([['priority', 'x']], 'x/'), spoold: refused },
  { name: 'a priority with a slash', send: wire([['priority', 'a/b']]), uwsgi: refused },
  { name: 'a priority of 300 digits', send: wire([['priority', '1'.repeat(300)]]), uwsgi: refused },
  {
    name: 'a priority that leads out of the spool',
    send: wire([['priority', '../y']]),
    uwsgi: only(STORED),
    spoold: refused,
  },
  {
    name: 'a time with a fraction, which is cut off',
    ...asSent([['at', '2147483647.9']], '', ' @2147483647'),
  },
  {
    name: 'two times, of which the last counts',
    ...asSent(
      [
        ['at', '1000'],
        ['at', '2000'],
      ],
      '',
      ' @2000',
    ),
  },
  {
    name: 'an empty time behind a time, which cancels it',
    ...asSent([
      ['at', '1000'],
      ['at', ''],
    ]),
  },
  { name: 'a time below zero', ...asSent([['at', '-5']]) },
  {
    name: 'a time that is no number',
    ...asSent([['at', 'abc']], '', ' @5451'),
    spoold: refused,
  },
  { name: 'a key called body, which stays a key', ...asSent([['body', 'xyz']]) },
  {
    name: 'a body behind CONTENT_LENGTH',
    send: Buffer.concat([wire([ab, ['CONTENT_LENGTH', '5']]), Buffer.from('hello')]),
    uwsgi: stored(wire([ab, ['CONTENT_LENGTH', '5']]).toString('hex')),
    spoold: stored(`11060000${AB}${Buffer.from('hello').toString('hex')}`),
  },
  {
    name: 'CONTENT_LENGTH that is no number',
    send: wire([['CONTENT_LENGTH', '5x']]),
    uwsgi: stored(wire([['CONTENT_LENGTH', '5x']]).toString('hex')),
    spoold: refused,
  },
  { name: 'a ping', send: wire([], { modifier1: 100 }), uwsgi: only(PONG) },
  { name: 'a ping with modifier2', send: wire([], { modifier1: 100, modifier2: 9 }), uwsgi: only(PONG) },
  { name: 'a ping with a block', send: wire([ab], { modifier1: 100 }), uwsgi: only(PONG) },
  {
    name: 'a signal that has no handler',
    send: wire([], { modifier1: 110, modifier2: 3 }),
    uwsgi: only(STORED),
  },
  {
    name: 'a signal with a block',
    send: wire(Buffer.from('abc'), { modifier1: 110, modifier2: 3 }),
    uwsgi: only(STORED),
  },
  { name: 'modifier1 18', send: wire([ab], { modifier1: 18 }), uwsgi: silent, whole: only(NOT_FOUND) },
  ...[1, 5, 99, 111, 173, 255].map(modifier1 => ({
    name: `modifier1 ${modifier1}`,
    send: wire([ab], { modifier1 }),
    uwsgi: silent,
  })),
  { name: 'HTTP', send: Buffer.from('GET / HTTP/1.0\r\n\r\n'), isHalf: true, uwsgi: silent },
]

for (const uwsgi of UWSGIS)
  describe(`the networked spooler, beside ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs) }, () => {
    const ours = { spool: spoolDirectory(), port: 0 }
    const theirs = { spool: spoolDirectory(), port: 0 }
    const network = { socket: '127.0.0.1:0', 'socket-timeout': 2, 'buffer-size': BUFFER_SIZE }
    const plugins = [...withPlugins(uwsgi, 'spooler', 'ping', 'signal'), '--spooler-frequency', '3600']
    const flags = Object.entries(network).flatMap(([key, value]) => [`--${key}`, String(value)])
    const peer = startUwsgi({ uwsgi, spool: theirs.spool, handler: '', args: [...plugins, ...flags] })
    const starting = startDaemon({ spool: ours.spool, isAside: true, ini: network })

    before(async () => {
      ours.port = await portOf(await starting)
      theirs.port = await portOf(peer)
      await peer.waitFor(/spawned uWSGI worker 1/)
    })

    for (const { name, send, isHalf, ...expected } of CASES)
      it(name, async () => {
        const ask = async ({ spool, port }: { spool: string; port: number }) => {
          const real = realpathSync(spool)
          return answerTo(port, typeof send === 'function' ? send(real) : send, isHalf === true, spool)
        }
        const wanted = (answer: Case['uwsgi'], { spool }: { spool: string }) =>
          typeof answer === 'function' ? answer(realpathSync(spool)) : answer
        const [mine, real] = await Promise.all([ask(ours), ask(theirs)])
        assert.deepEqual(
          real,
          wanted((uwsgi.isWhole ? expected.whole : undefined) ?? expected.uwsgi, theirs),
          'uWSGI',
        )
        assert.deepEqual(mine, wanted(expected.spoold ?? expected.uwsgi, ours), 'spoold')
      })

    it('leaves nothing outside the spool', () => {
      assert.deepEqual(
        leftIn(dirname(ours.spool)).filter(path => !/^(spool\/|app\.ini$|handler\.mjs$|journal$)/.test(path)),
        [],
      )
    })
  })

async function answerTo(port: number, bytes: Buffer, isHalf: boolean, spool: string): Promise<Answer> {
  const client = await Client.to(port)
  client.send(bytes)
  if (isHalf) client.half()
  const end = await client.ended()
  const paths = leftIn(spool)
  const files = paths.map(path => {
    const file = join(spool, path)
    const { mtimeMs } = statSync(file)
    const isNow = Math.abs(mtimeMs - Date.now()) < 60_000
    const directory = path.includes('/') ? `${path.split('/')[0]}/` : ''
    return `${directory}${readFileSync(file).toString('hex')}${isNow ? '' : ` @${mtimeMs / 1000}`}`
  })
  for (const path of paths) rmSync(join(spool, path))
  return { reply: client.received, end, file: files.length === 0 ? null : files.join(' ') }
}
