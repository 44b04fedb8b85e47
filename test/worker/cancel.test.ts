import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import type { WorkerMessage } from '#src/runtime/ipc/messages.js'
import { closeFeeds, memoryWorker } from '../helpers/memory-worker.js'
import { until } from '../helpers/until.js'

type Answer = Extract<WorkerMessage, { type: 'cancelling' }>

const answersOf = (messages: ReadonlyArray<{ readonly type: string }>) =>
  messages
    .filter((message): message is Answer => message.type === 'cancelling')
    .map(({ number, hasBegun }) => ({ number, hasBegun }))

const UNTIL_CANCELLED = `await hold(env.n)
  const { signal } = task
  if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
  if (env.then === 'done') return -2
  if (env.then === 'thrown') throw task.signal.reason
  return { retry: '1h' }`

afterEach(closeFeeds)

describe('a worker whose task is cancelled', () => {
  it('buries the task however it ends then, unless it ends with SPOOL_OK', async () => {
    const { put, run, hold, worker, spool, kindOf, messages } = await memoryWorker(UNTIL_CANCELLED, {
      concurrency: 3,
    })
    for (const [n, then] of ['done', 'thrown', 'retried'].entries()) await put({ n: String(n + 1), then })
    await run()
    await until('all run', () => hold.size === 3)
    for (const letGo of hold.values()) letGo()
    for (const number of [0, 1, 2]) worker.hear({ type: 'cancel', number })
    await until('all are reported', () => ['1', '2', '3'].every(n => kindOf(n).length > 0))
    assert.deepEqual([kindOf('1'), kindOf('2'), kindOf('3')], [['ok'], ['buried'], ['buried']])
    assert.deepEqual(
      answersOf(messages),
      [0, 1, 2].map(number => ({ number, hasBegun: true })),
    )
    assert.deepEqual(
      [...spool.dead.values()].map(({ reason, detail }) => [reason, detail]),
      [
        ['cancelled', 'it was cancelled, and ended: Error: this task was cancelled'],
        ['cancelled', 'it was cancelled, and ended'],
      ],
    )
  })

  it('hands the task back as it was if it has not begun', async () => {
    const { put, run, hold, worker, spool, kindOf, messages } = await memoryWorker(
      'await hold(env.n); return -2',
    )
    for (const n of ['1', '2']) await put({ n })
    await run()
    await until('the first runs', () => hold.size === 1)
    worker.hear({ type: 'cancel', number: 1 })
    assert.deepEqual(answersOf(messages), [{ number: 1, hasBegun: false }])
    await until('the cancelled task is back', () => kindOf('2').length > 0)
    assert.equal(kindOf('2')[0], 'untouched')
    assert.equal(spool.dead.size, 0)
    hold.get('1')?.()
    await until('the other one is done', () => kindOf('1')[0] === 'ok')
  })
})
