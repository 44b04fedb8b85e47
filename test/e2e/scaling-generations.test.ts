import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import { treeMemoryOf } from '#src/system/process-usage.js'
import { checks, type Ini, lines, processesOf, put, ready, scaledTo, stop } from '../helpers/adaptive.js'
import { controlOf } from '../helpers/control.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const MB = 1024 * 1024
const SOFT = 350 * MB

/** A task ends at the file `release`, and eats more than the limits allow when told to; the first `die` kills its process. */
const HANDLER = `
import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
const at = name => import.meta.dirname + '/' + name
const eaten = []
export default async ({ die }, task) => {
  JOURNAL('start ' + process.pid + ' ' + task.name)
  if (die && !existsSync(at('died'))) {
    writeFileSync(at('died'), '')
    process.kill(process.pid, 'SIGKILL')
  }
  while (!existsSync(at('release'))) {
    if (existsSync(at('eat ' + process.pid)) && eaten.length === 0) eaten.push(Buffer.alloc(${SOFT}, 1))
    await setTimeout(20)
  }
  return task.SPOOL_OK
}`

/** Starts two of three processes, scaled only by hand; what one of them eats is over both limits. */
async function start(ini: Ini = {}) {
  const spool = spoolDirectory()
  const daemon = await startDaemon({
    spool,
    handler: HANDLER,
    ini: {
      ...{ cheaper: 1, workers: 3, 'cheaper-initial': 2, 'cheaper-algo': 'manual', 'check-interval': 0.05 },
      ...{ 'cheaper-rss-limit-soft': SOFT, 'cheaper-rss-limit-hard': SOFT + MB },
      ...{ 'spooler-quiet': true, 'spooler-frequency': 1000, ...ini },
    },
  })
  await until('two workers are ready', async () => (await ready(spool)) === 2)
  const write = (name: string) => writeFileSync(join(dirname(spool), name), '')
  return { spool, daemon, write }
}

const scale = (spool: string, to: number) => askDaemon(controlOf(spool), 'scale', { spool, to: String(to) })

/** Makes these processes take too much memory, and checks that the limits see none of it. */
async function eatUnseen(daemon: Daemon, pids: readonly number[], write: (name: string) => void) {
  for (const pid of pids) write(`eat ${pid}`)
  await until('the processes have eaten', () => pids.every(pid => treeMemoryOf(pid).rssBytes > SOFT + MB))
  await until('many checks have passed', checks(20))
  assert.doesNotMatch(daemon.output, /memory limit exceeded/)
}

describe('the limits of processes and memory', () => {
  it('do not count the old generation of a reload', async () => {
    const { spool, daemon, write } = await start()
    put(spool, 2)
    await until('both workers are busy', () => lines(daemon, 'start').length === 2)
    const old = daemon.workers()
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('reloaded')
    await until('both generations are there', () => daemon.workers().length === 4)
    assert.deepEqual(scaledTo(daemon), [])
    await eatUnseen(daemon, old, write)
    await scale(spool, 3)
    await until('three workers are ready', async () => (await ready(spool)) === 3)
    assert.equal((await processesOf(spool)).present, 3)
    assert.equal(daemon.workers().length, 5)
    await assert.rejects(scale(spool, 4), /expected 1 to 3 processes, got 4/)
    write('release')
    await until('the old workers are gone', () => daemon.workers().length === 3)
    assert.ok(!daemon.workers().some(pid => old.includes(pid)))
    await stop(daemon)
  })

  it('do not count the process that runs a suspect alone', async () => {
    const { spool, daemon, write } = await start({ 'spooler-concurrency': 2 })
    put(spool, 3)
    await until('one process has two tasks', () => lines(daemon, 'start').length === 3)
    put(spool, 1, { die: 'once' }) // now both have two tasks: the killer ends one more, and one of these two runs alone next
    const alone = await until('one of the suspects has a worker to run alone', async () => {
      const { workers } = await processesOf(spool)
      return workers.find(({ isLone, state }) => isLone && state === 'ready')?.pid
    })
    await until('the suspect runs alone', () =>
      lines(daemon, 'start').some(([, pid]) => Number(pid) === alone),
    )
    await until('two others are ready', async () => (await processesOf(spool)).present === 2)
    await eatUnseen(daemon, [alone], write)
    await scale(spool, 3)
    await until('three workers are there beside the lone one', () => daemon.workers().length === 4)
    const { present, wanted } = await processesOf(spool)
    assert.deepEqual([present, wanted], [3, 3])
    write('release')
    await until('all tasks have run', () => leftIn(spool).length === 0)
    await stop(daemon)
  })
})
