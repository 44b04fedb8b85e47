import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { askDaemon } from '#src/engines/control/client.js'
import { assertWhole, lines, processesOf, put, ready, startScaled, stop } from '../helpers/adaptive.js'
import { controlOf } from '../helpers/control.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const MOST = 8
/** Each round lets all processes go but one. */
const TIMES = isLong ? 500 : 50

/** Journals the start and the end of each task. */
const HANDLER = `
import { setTimeout } from 'node:timers/promises'
export default async ({ ms }, task) => {
  JOURNAL('start ' + process.pid + ' ' + task.name + ' ' + Date.now())
  await setTimeout(Number(ms))
  JOURNAL('end ' + process.pid + ' ' + task.name + ' ' + Date.now())
  return task.SPOOL_OK
}`

const BY_HAND = { cheaper: 1, 'cheaper-algo': 'manual' }
/** Waits long for the answer, because eight processes that start at once may leave the daemon little time. */
const scale = (spool: string, to: number) =>
  askDaemon(controlOf(spool), 'scale', { spool, to: String(to) }, { timeoutMs: 60_000 })

/** Returns when each process was asked to go, by its pid, epoch ms. */
function sentHome({ output }: Daemon): Map<number, number> {
  const events = output
    .split('\n')
    .filter(line => line.includes('"worker-cheaped"'))
    .map(line => JSON.parse(line))
  return new Map(events.map(({ worker, time }) => [worker, time]))
}

/** Keeps the spool neither empty nor long. @returns the names that it has put, and a function that ends it */
function feed(spool: string) {
  const names: string[] = []
  let isFed = true
  const feeding = (async () => {
    while (isFed) {
      if (leftIn(spool).length < 2 * MOST) names.push(...put(spool, 4, { ms: String(names.length % 7) }))
      await sleep(5)
    }
  })()
  const end = () => {
    isFed = false
    return feeding
  }
  return { names, end }
}

describe('a pool that shrinks', () => {
  it('under load cuts no task short, runs none twice, and runs none in a process that was asked to go', async () => {
    const spool = spoolDirectory()
    const ini = {
      ...BY_HAND,
      workers: MOST,
      'log-format': 'json',
      'check-interval': 0.05,
      'spooler-quiet': true,
    }
    const daemon = await startDaemon({ spool, handler: HANDLER, ini })
    const { names, end } = feed(spool)
    while (sentHome(daemon).size < TIMES) {
      await scale(spool, MOST)
      await until('all processes are ready', async () => (await ready(spool)) === MOST)
      await scale(spool, 1)
      await until('one process is left', () => daemon.workers().length === 1)
    }
    await end()
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assertWhole(daemon, names)
    const gone = sentHome(daemon)
    for (const word of ['start', 'end'])
      for (const [, pid, name, at] of lines(daemon, word))
        assert.ok(
          Number(at) <= (gone.get(Number(pid)) ?? Infinity),
          `${name}: ${word} in ${pid}, which was to go`,
        )
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY/)
    await stop(daemon)
  })

  it('lets no busy process go, but the first one that becomes idle', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { ...BY_HAND, workers: 2, 'cheaper-initial': 2 })
    await until('two processes are ready', async () => (await ready(spool)) === 2)
    const [goLong, goShort] = ['long', 'short'].map(name => join(dirname(spool), name)) as [string, string]
    const names = put(spool, 1, { go: goLong })
    await until('one process is busy', () => lines(daemon, 'start').length === 1)
    names.push(...put(spool, 1, { go: goShort }))
    await until('both processes are busy', () => lines(daemon, 'start').length === 2)
    const [long, short] = lines(daemon, 'start').map(([, pid]) => Number(pid))
    await scale(spool, 1)
    assert.equal(daemon.workers().length, 2)
    writeFileSync(goShort, '')
    await until('one process is gone', () => daemon.workers().length === 1)
    assert.deepEqual([isAlive(long ?? 0), isAlive(short ?? 0), lines(daemon, 'end').length], [true, false, 1])
    writeFileSync(goLong, '')
    await until('the other task has ended', () => leftIn(spool).length === 0)
    assertWhole(daemon, names)
    await stop(daemon)
  })

  it('lets the process go first that has been idle longest', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { ...BY_HAND, workers: 4, 'cheaper-initial': 4 })
    await until('four processes are ready', async () => (await ready(spool)) === 4)
    const gates = [0, 1, 2, 3].map(n => join(dirname(spool), `go${n}`))
    for (const [at, go] of gates.entries()) {
      put(spool, 1, { go })
      await until('one more process is busy', () => lines(daemon, 'start').length === at + 1)
    }
    const idle = async () =>
      (await processesOf(spool)).workers.filter(({ outstanding }) => outstanding === 0).length
    for (const [count, at] of [2, 3, 1, 0].entries()) {
      writeFileSync(gates[at] ?? '', '')
      await until('one more process is idle', async () => (await idle()) === count + 1)
    }
    await until('all tasks have ended', () => leftIn(spool).length === 0)
    const inOrder = lines(daemon, 'end').map(([, pid]) => Number(pid))
    assert.equal(new Set(inOrder).size, 4)
    for (const left of [3, 2, 1]) {
      await scale(spool, left)
      await until('one process is gone', () => daemon.workers().length === left)
      assert.deepEqual(new Set(daemon.workers()), new Set(inOrder.slice(-left)))
    }
    await stop(daemon)
  })
})
