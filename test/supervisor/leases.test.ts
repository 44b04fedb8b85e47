import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { subscribeLog } from '#src/base/events/log-subscriber.js'
import type { Log } from '#src/base/log/log.js'
import { MemoryEnqueuer } from '#src/engines/memory/enqueuer.js'
import { MemorySpool } from '#src/engines/memory/spool.js'
import { closePools, memoryPoolOf, type PoolSettings } from '../helpers/pool.js'
import { requestFrom } from '../helpers/request.js'
import { until } from '../helpers/until.js'

const LEASE_MS = 500

/** Starts a pool whose claims are leases, and whose workers run in this process. */
async function leasePool(handler: string, settings: PoolSettings, ...tasks: ReadonlyArray<object>) {
  const spool = new MemorySpool('memory:leases', { leaseMs: LEASE_MS })
  const enqueuer = new MemoryEnqueuer(spool)
  for (const vars of tasks) await enqueuer.store(requestFrom({ ...vars }))
  const opened = memoryPoolOf(spool, handler, settings)
  const lines: string[] = []
  const log: Log = {
    ...{ fd: 2, isStructured: false, isPrecise: false, reopen() {}, end: async () => {} },
    line: (_level, text) => void lines.push(text),
  }
  subscribeLog(opened.events, log, () => false)
  await opened.run()
  return { ...opened, spool, lines, logOf: (name: string) => lines.filter(line => line.includes(name)) }
}

/** Handlers keep the times of their calls, and wait as long as their task says. */
const HANDLER = `
  import { setTimeout } from 'node:timers/promises'
  const { journal } = globalThis.spooldLeaseTest
  export default async ({ n, wait, block, answer }) => {
    journal.push(n)
    for (const endsAt = performance.now() + Number(block ?? 0); performance.now() < endsAt; );
    await setTimeout(Number(wait ?? 0), undefined, { ref: false })
    if (answer === 'throw') throw new Error('no ' + n)
    return Number(answer ?? -2)
  }`

function startJournal(): string[] {
  const journal: string[] = []
  Object.assign(globalThis, { spooldLeaseTest: { journal } })
  return journal
}

describe('a pool over an engine whose claims are leases', () => {
  afterEach(closePools)

  it('calls tasks by their names in every line of the log', async () => {
    const journal = startJournal()
    const { lines, logOf, spool } = await leasePool(
      HANDLER,
      { worker: { isListenedTo: true }, processes: 1 },
      { n: 'one' },
      { n: 'two', answer: 'throw' },
      { n: 'three', wait: 100 },
    )
    await until('two have run', () => spool.tasks.size === 1 && journal.length >= 3)
    const done = (name: string) =>
      `[spooler memory:leases pid: ${process.pid}] done with task ${name} after 0 seconds`
    const begun = (name: string) => `[spooler memory:leases pid: ${process.pid}] managing request ${name} ...`
    await until('the last is logged', () => lines.includes(done('task-3')))
    assert.deepEqual(logOf('task-1'), [begun('task-1'), done('task-1')])
    assert.match(
      logOf('task-2').join('\n'),
      /managing request task-2 \.\.\.\n.* task task-2 failed, runs again/,
    )
    assert.deepEqual(logOf('task-3'), [begun('task-3'), done('task-3')])
    assert.doesNotMatch(lines.join('\n'), /lease \d/)
  })

  it('logs which task a dead worker was running, and what became of that task', async () => {
    startJournal()
    const { lines, ports, pool, spool } = await leasePool(
      HANDLER,
      { worker: { policy: { maxAttempts: 0, maxCrashes: 1, backoff: 'none', delayMs: null, capMs: 0 } } },
      { n: 'one', wait: 60_000 },
    )
    await until('the task runs', () =>
      [...pool.workers].some(({ work }) => work.tasks.begun[0]?.lease !== undefined),
    )
    for (const port of ports) port.kill()
    await until('the task is a dead letter', () => spool.dead.has('task-1'))
    const died = `[spooler memory:leases pid: ${process.pid}] the process was killed by SIGKILL`
    await until('the burial is logged', () => lines.some(line => line.includes('is buried')))
    assert.ok(lines.includes(`${died}; it had task-1`), lines.join('\n'))
    const buried = lines.find(line => line.includes('is buried'))
    assert.match(buried ?? '', /task task-1 is buried: .*its process was killed by SIGKILL/)
  })

  it('keeps the claims of a worker that is silent or blocked for longer than a lease lasts', async () => {
    const journal = startJournal()
    const { spool } = await leasePool(
      HANDLER,
      {},
      { n: 'silent', wait: 3 * LEASE_MS },
      { n: 'blocked', block: 1.5 * LEASE_MS },
    )
    const other = memoryPoolOf(spool, HANDLER) // as of another daemon
    await until('both run', () => journal.length === 2)
    await other.run()
    await until('both have run', () => spool.tasks.size === 0)
    assert.deepEqual(journal.sort(), ['blocked', 'silent'], 'each task ran once')
  })

  it('no longer renews the claim of a worker that was killed, so that another one runs the task', async () => {
    const journal = startJournal()
    const { spool, ports } = await leasePool(
      HANDLER,
      { processes: 1, worker: { harakiriMs: 2 * LEASE_MS } },
      { n: 'slow', wait: 20 * LEASE_MS },
    )
    await until('the task runs', () => journal.length === 1)
    const startedAt = performance.now()
    const hold = [...spool.tasks.values()][0]?.hold
    const endsAt = hold?.untilMs ?? 0
    await until('the worker is killed', () => ports.length > 1)
    assert.ok((hold?.untilMs ?? 0) > endsAt + LEASE_MS, 'it was renewed until then')
    await until('the task runs again', () => journal.length === 2)
    assert.ok(performance.now() - startedAt > 2 * LEASE_MS)
    assert.deepEqual(journal, ['slow', 'slow'])
  })
})
