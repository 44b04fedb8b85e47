import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { checkSendable } from '#src/runtime/ipc/frames.js'
import type { WorkerMessage } from '#src/runtime/ipc/messages.js'
import { daemonOf, tellStored } from '#src/runtime/worker/worker-daemon.js'
import { closeFeeds, memoryWorker } from '../helpers/memory-worker.js'
import { requestFrom } from '../helpers/request.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const typesOf = (messages: readonly { readonly type: string }[]) => messages.map(({ type }) => type)
const timesOf = (messages: ReadonlyArray<WorkerMessage>) =>
  messages.flatMap(message => (message.type === 'reports' && message.times ? [message.times] : []))
describe('a worker over an engine whose answers take time', () => {
  afterEach(closeFeeds)

  it('runs the most urgent task first, and a later one when it is due', async () => {
    const { put, run, order, spool } = await memoryWorker('return -2')
    await put({ n: 'later' }, { at: Math.floor(Date.now() / 1000) + 3 })
    await put({ n: 'plain' })
    await put({ n: 'nine' }, { priority: 9 })
    await put({ n: 'three' }, { priority: 3 })
    await run(1)
    await until('all have run', () => spool.tasks.size === 0)
    assert.deepEqual(order(), ['three', 'nine', 'plain', 'later'])
  })

  it('retries, ignores, buries and fails as a handler says', async () => {
    const { put, run, feed, journal, spool, kindOf } = await memoryWorker(
      `if (env.n === 'retry') return task.attempt < 3 ? { retry: 0 } : -2
       if (env.n === 'ignore') return journal.filter(each => each.n === 'ignore').length < 2 ? 0 : -2
       if (env.n === 'bury') return { bury: 'no use' }
       if (env.n === 'throw') { await null; throw new Error('boom') }
       return -2`,
      { policy: { maxAttempts: 3, maxCrashes: 3, backoff: 'none', delayMs: null, capMs: 0 } },
    )
    for (const n of ['retry', 'ignore', 'bury', 'throw', 'body']) await put({ n })
    await run()
    await until('nothing is left', () => spool.tasks.size === 0)
    await until('all is reported', () => feed.state.isDrained)
    assert.deepEqual(
      journal.filter(({ n }) => n === 'retry').map(({ attempt }) => attempt),
      [1, 2, 3],
    )
    assert.deepEqual(kindOf('1'), ['retry', 'retry', 'ok'])
    assert.deepEqual(kindOf('2'), ['ignore', 'ok'])
    assert.deepEqual(kindOf('3'), ['buried'])
    assert.deepEqual(kindOf('4'), ['error', 'error', 'buried'])
    assert.deepEqual(
      [...spool.dead.values()].map(({ reason, detail }) => [reason, detail.split('\n')[0]]),
      [
        ['asked', 'no use'],
        [
          'attempts',
          'it failed 3 times, as often as it may (spooler-max-attempts); the last error: Error: boom',
        ],
      ],
    )
  })

  it('runs one task at a time, or as many as configured, and never more', async () => {
    for (const concurrency of [1, 3]) {
      const { put, run, spool, hold, drain } = await memoryWorker('await hold(env.n); return -2', {
        concurrency,
      })
      for (let n = 0; n < 8; n++) await put({ n: String(n) })
      await run()
      let most = 0
      await until('all have run', () => {
        most = Math.max(most, hold.size)
        if (hold.size < Math.min(concurrency, spool.tasks.size)) return false
        for (const [n, letGo] of [...hold].slice(0, 1)) {
          hold.delete(n)
          letGo()
        }
        return spool.tasks.size === 0
      })
      drain()
      assert.equal(most, concurrency)
    }
  })

  it('lets the running task end when it drains, and hands back the others as they were', async () => {
    const { put, run, spool, hold, drain, exitCode, kindOf, messages } = await memoryWorker(
      'await hold(env.n); return -2',
    )
    for (const n of ['1', '2', '3']) await put({ n })
    await run()
    await until('the first runs', () => hold.size === 1)
    drain()
    await until('the others are back', () => kindOf('3').length > 0)
    assert.equal(exitCode(), undefined, 'one still runs')
    hold.get('1')?.()
    await until('the worker exits', () => exitCode() === 30)
    assert.deepEqual([kindOf('1'), kindOf('2'), kindOf('3')], [['ok'], ['untouched'], ['untouched']])
    assert.equal(spool.tasks.size, 2)
    assert.equal(typesOf(messages).at(-1), 'drained')
    for (const { hold, past, attempts } of spool.tasks.values())
      assert.deepEqual([hold, past, attempts], [undefined, 'none', 0])
  })

  it('hands back the task that it is claiming when it drains', async () => {
    const { put, run, spool, journal, drain, exitCode, kindOf } = await memoryWorker('return -2')
    await put({ n: '1' })
    await run() // its claim takes a turn
    drain()
    await until('the worker exits', () => exitCode() === 30)
    assert.deepEqual(journal, [])
    assert.deepEqual(kindOf('1'), ['untouched'])
    const [task] = spool.tasks.values()
    assert.deepEqual([task?.hold, task?.past], [undefined, 'none'])
  })

  it('hands back what it has not begun when it is asked, and answers', async () => {
    await until('the worker is asked while the first task is being claimed', async () => {
      const { put, run, hold, worker, messages, kindOf } = await memoryWorker('await hold(env.n); return -2')
      for (const n of ['1', '2', '3']) await put({ n })
      await run()
      worker.hear({ type: 'recall' })
      assert.ok(typesOf(messages).includes('recalled'))
      await until('the first runs, and is reported', () => hold.size === 1 && kindOf('1').length > 0)
      assert.deepEqual(
        [kindOf('1'), kindOf('2').slice(0, 1), kindOf('3').slice(0, 1)],
        [['untouched'], ['untouched'], ['untouched']],
      )
      return true
    })
  })

  it('exits after as many tasks as it may run, and runs no more', async () => {
    const { put, run, spool, journal, exitCode, messages } = await memoryWorker('return -2', {
      maxTasks: 3,
      concurrency: 2,
    })
    for (let n = 0; n < 8; n++) await put({ n: String(n) })
    await run()
    await until('the worker exits', () => exitCode() === 30)
    assert.ok(typesOf(messages).includes('recycling'))
    assert.deepEqual([journal.length, spool.tasks.size], [3, 5])
  })

  it('parks a task that has to be alone instead of running it beside others', async () => {
    const { put, run, feed, spool, journal, reports } = await memoryWorker('return -2', { concurrency: 2 })
    await put({ n: 'suspect' })
    for (const task of spool.tasks.values()) task.past = 'died-beside'
    await put({ n: 'other' })
    await run()
    await until('the suspect is parked', () => feed.state.parked.alone === 1)
    await until('the other has run', () => spool.tasks.size === 1)
    assert.deepEqual(
      journal.map(({ n }) => n),
      ['other'],
    )
    assert.deepEqual(
      reports.filter(({ name }) => name === 'task-1').map(({ kind, reason }) => [kind, reason]),
      [['parked', 'alone']],
    )
  })

  it('reports how long runs took and tasks waited', async () => {
    const { put, run, reports, messages } = await memoryWorker('return -2')
    await put({ n: '1' })
    await run()
    await until('the task is reported', () => reports.length === 1)
    const [times] = timesOf(messages)
    assert.deepEqual([times?.ran.length, times?.ran[2], times?.waited[2]], [3, 1, 1])
    assert.equal(timesOf(messages).length, 1)
  })

  it('blames no task for an exception outside of every call, and hands its tasks back', async () => {
    const { put, run, spool, hold, worker, kindOf, exitCode } = await memoryWorker(
      'await hold(env.n); return -2',
      { concurrency: 2, policy: { maxAttempts: 0, maxCrashes: 3, backoff: 'none', delayMs: null, capMs: 0 } },
    )
    for (const n of ['1', '2']) await put({ n })
    await run()
    await until('both run', () => hold.size === 2)
    worker.fault(new Error('of an unknown task'))
    await until('the worker exits', () => exitCode() === 1)
    for (const { attempts, past } of spool.tasks.values()) assert.deepEqual([attempts, past], [0, 'none'])
    assert.deepEqual(
      [kindOf('1')[0], kindOf('2')[0]],
      ['untouched', 'untouched'],
      'both tasks are reported before the exit',
    )
  })
})

describe('tasks that handlers store together', () => {
  it('are announced to the master in one message', async () => {
    const messages: WorkerMessage[] = []
    const spool = spoolDirectory()
    const places = { spool, targets: [{ directory: spool, sync: false }], queues: [] }
    const send = (message: WorkerMessage) => messages.push(message)
    const enqueuer = daemonOf(places, send, () => undefined).enqueuerOf('default')
    const results = await enqueuer.storeAll(
      Array.from({ length: 300 }, (_, i) => requestFrom({ n: String(i) })),
    )
    const paths = results.map(result => ('stored' in result ? result.stored.path : undefined))
    const told = messages.map(message => message.type === 'stored' && message.tasks.map(({ path }) => path))
    assert.deepEqual(told, [paths])
  })

  it('are announced in messages that the master takes, however many tasks they are', () => {
    const messages: WorkerMessage[] = []
    const request = requestFrom({ n: 'one of many' })
    const requests = Array.from({ length: 200_000 }, () => request)
    const path = `/var/spool/${'a'.repeat(100)}`
    const results = requests.map(() => ({ stored: { path, isDuplicate: false } }))
    tellStored(requests, results, message => messages.push(message))
    for (const message of messages) checkSendable('it', message)
    assert.equal(
      messages.flatMap(message => (message.type === 'stored' ? message.tasks : [])).length,
      200_000,
    )
  })
})
