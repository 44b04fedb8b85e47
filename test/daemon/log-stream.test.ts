import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Log } from '#src/base/log/log.js'
import { type LogLine, RememberedLog } from '#src/doors/daemon/log-stream.js'

const NOWHERE: Log = {
  fd: 2,
  isStructured: false,
  isPrecise: false,
  line() {},
  reopen() {},
  end: async () => {},
}

interface Batch {
  readonly lines: readonly LogLine[]
  readonly missed: number
}

/** Returns a client that takes what it was sent only when told to. */
function clientOf(log: RememberedLog, args: object) {
  const batches: Batch[] = []
  let taken = () => {}
  let leave = () => {}
  const whenGone = new Promise<void>(resolve => {
    leave = resolve
  })
  const call = {
    role: 'operator' as const,
    send: (event: unknown) => batches.push(event as Batch) > 0,
    whenTaken: () => new Promise<void>(resolve => (taken = resolve)),
    whenGone,
  }
  const ended = Promise.resolve(log.action.run(args as never, call)).then(
    () => 'ok',
    (error: { code: string }) => error.code,
  )
  const turn = () => new Promise(resolve => setImmediate(resolve))
  return {
    batches,
    ended,
    leave: () => leave(),
    turn,
    async take() {
      taken()
      await turn()
    },
  }
}

const textsOf = (batches: readonly Batch[]) => batches.flatMap(({ lines }) => lines.map(({ text }) => text))
const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `line ${from + i}`)

describe('the stream of log lines', () => {
  it('keeps the first part of long lines, and frees the rest', () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const log = new RememberedLog(NOWHERE)
    const megabytes = () => {
      collect()
      return process.memoryUsage().heapUsed / 2 ** 20
    }
    const before = megabytes()
    for (let i = 0; i < 200; i++) log.line('info', `${i} ${'x'.repeat(2 ** 20)}`.replace('x', 'y'))
    const grown = megabytes() - before
    assert.ok(grown < 5, `${Math.round(grown)} MB`)
    assert.match(log.lastLines.at(-1)?.text ?? '', /^199 yx{16379}…$/)
  })

  it('begins with the remembered lines, which are bounded', async () => {
    const log = new RememberedLog(NOWHERE)
    for (const text of numbers(0, 1500)) log.line('info', text)
    assert.deepEqual(
      log.lastLines.map(({ text }) => text),
      numbers(500, 1500),
    )
    for (let i = 0; i < 100; i++) log.line('info', 'x'.repeat(100_000), undefined, 'plain')
    const kept = log.lastLines
    assert.ok(kept.length > 10 && kept.reduce((sum, { text }) => sum + text.length, 0) <= 256 * 1024)
    log.line('error', 'no')
    const { batches, ended } = clientOf(log, { follow: false, level: 'error' })
    assert.deepEqual([textsOf(batches), await ended], [['no'], 'ok'])
  })

  it('tells a slow client how many lines it has missed, and where', async () => {
    const log = new RememberedLog(NOWHERE)
    const client = clientOf(log, { follow: true })
    for (const text of numbers(0, 1)) log.line('info', text)
    await client.turn() // the first one is on its way
    for (const text of numbers(1, 5001)) log.line('info', text)
    await client.turn()
    assert.deepEqual(textsOf(client.batches), ['line 0'])
    await client.take()
    const [, second] = client.batches
    assert.deepEqual([second?.lines.length, second?.missed], [1000, 4000])
    log.line('info', 'after')
    await client.take()
    assert.deepEqual(textsOf(client.batches), [...numbers(0, 1001), 'after'])
    client.leave()
    await client.take()
    assert.equal(await client.ended, 'ok')
  })

  it('ends with the last line when the daemon stops, however slow a client is', async () => {
    const log = new RememberedLog(NOWHERE)
    const [quick, slow] = [clientOf(log, { follow: true }), clientOf(log, { follow: true })]
    log.line('info', 'a')
    await quick.turn()
    log.line('info', 'goodbye')
    const closed = log.close(50)
    await quick.take()
    await quick.take()
    assert.deepEqual([textsOf(quick.batches), await quick.ended], [['a', 'goodbye'], 'stopped'])
    await closed
    assert.deepEqual(textsOf(slow.batches), ['a'])
  })

  it('refuses an unknown level', () => {
    const log = new RememberedLog(NOWHERE)
    assert.throws(() => clientOf(log, { follow: false, level: 'debug' }), { code: 'invalid-args' })
  })
})
