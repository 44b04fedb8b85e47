import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { slotTaker } from '#src/engines/spool/slot-files.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

const IS_LONG = process.env.SPOOLD_TEST_LONG === '1'

interface Load {
  readonly limit: number
  readonly tasks: number
  readonly ms: number
  readonly concurrency: number
  /** The share of the time in which slots have to be in use. */
  readonly share: number
}

const LOADS: readonly Load[] = IS_LONG
  ? [
      { limit: 1, tasks: 1000, ms: 200, concurrency: 1, share: 0.9 },
      { limit: 3, tasks: 5000, ms: 20, concurrency: 1, share: 0 },
      // Twenty processes with shorter tasks than 200 ms would compete for the processors, not for slots.
      { limit: 50, tasks: 5000, ms: 200, concurrency: 4, share: 0.7 },
    ]
  : [
      { limit: 1, tasks: 40, ms: 100, concurrency: 1, share: 0 },
      { limit: 3, tasks: 200, ms: 20, concurrency: 1, share: 0 },
      { limit: 20, tasks: 500, ms: 20, concurrency: 4, share: 0 },
    ]
const DAEMONS = IS_LONG ? 4 : 2
/** A worker is killed this often on average, in ms, and a whole daemon at every fifteenth kill. */
const KILL_MS = IS_LONG ? 3000 : 1000
const DAEMON_EVERY = 15

/** Journals each line by one call, so that their order is that of the events. */
const FENCED = ({ limit, ms }: Load) => `
import { Tasks } from 'spoold'
export const tasks = new Tasks({ maxRetries: Infinity, retryDelay: 0 })
const at = () => Math.round(performance.timeOrigin + performance.now())
tasks.task('few', { maxConcurrency: ${limit} }, async n => {
  JOURNAL('begin ' + process.pid + ' ' + n + ' ' + at())
  await new Promise(resolve => setTimeout(resolve, ${ms}))
  JOURNAL('end ' + process.pid + ' ' + n + ' ' + at())
})`

/** Returns what the journal says: how many ran at most at once, which ended, and how much of the slots' time was used. */
function fenceOf(lines: readonly string[], limit: number) {
  const running = new Map<string, number>()
  const [dead, ended] = [new Set<string>(), new Set<string>()]
  let [most, usedMs, firstAt, lastAt] = [0, 0, 0, 0]
  for (const line of lines) {
    const [word, pid = '', n = '', time] = line.split(' ')
    const [key, at] = [`${pid} ${n}`, Number(time)]
    if (word === 'kill') {
      dead.add(pid)
      for (const [each, since] of running)
        if (each.startsWith(`${pid} `)) {
          running.delete(each)
          usedMs += at - since
        }
      continue
    }
    if (word === 'end') {
      ended.add(n)
      usedMs += at - (running.get(key) ?? at)
      running.delete(key)
    }
    if (word !== 'begin' || dead.has(pid)) continue
    firstAt ||= at
    lastAt = at
    running.set(key, at)
    most = Math.max(most, running.size)
  }
  return { most, ended, share: usedMs / (limit * Math.max(1, lastAt - firstAt)) }
}

function workersOf(daemon: Daemon): number[] {
  try {
    return readFileSync(`/proc/${daemon.pid}/task/${daemon.pid}/children`, 'utf8')
      .split(' ')
      .map(Number)
      .filter(pid => pid > 1) // 0 would be our own group
  } catch {
    return []
  }
}

describe('slots of daemons whose processes are killed', () => {
  for (const load of LOADS)
    it(`never let more than ${load.limit} of ${load.tasks} tasks run at once, and lose none`, async t => {
      const { limit, tasks, concurrency, share } = load
      const spool = spoolDirectory()
      for (let n = 0; n < tasks; n++) drop(spool, undefined, packet({ task: 'few', args: `[${n}]` }))
      const setup = {
        spool,
        handler: FENCED(load),
        ini: {
          'spooler-processes': 4,
          'spooler-concurrency': concurrency,
          'spooler-max-crashes': 1000,
          'spooler-quiet': true,
        },
      }
      const daemons = await Promise.all(Array.from({ length: DAEMONS }, () => startDaemon(setup)))
      const journal = join(dirname(spool), 'journal')
      const kill = (pid: number) => {
        appendFileSync(journal, `kill ${pid} - ${Math.round(performance.timeOrigin + performance.now())}\n`)
        try {
          process.kill(pid, 'SIGKILL')
        } catch {} // the process has gone meanwhile
      }
      for (let kills = 1; leftIn(spool).length > 0; kills++) {
        await sleep(2 * KILL_MS * Math.random())
        const i = Math.floor(Math.random() * daemons.length)
        const daemon = daemons[i]
        if (daemon === undefined) continue
        const workers = workersOf(daemon)
        if (kills % DAEMON_EVERY === 0) {
          for (const pid of [daemon.pid, ...workers]) kill(pid)
          await daemon.exited
          daemons[i] = await startDaemon(setup)
        } else if (workers.length > 0) kill(workers[Math.floor(Math.random() * workers.length)] ?? 0)
      }
      for (const daemon of daemons) daemon.child.kill('SIGTERM')
      await Promise.all(daemons.map(daemon => daemon.exited))
      const lines = readFileSync(journal, 'utf8').split('\n').filter(Boolean)
      const fence = fenceOf(lines, limit)
      t.diagnostic(
        `${limit}: at most ${fence.most} at once, slots in use ${(100 * fence.share).toFixed(1)} %`,
      )
      assert.ok(fence.most <= limit, `${fence.most} ran at once`)
      assert.ok(fence.most >= Math.min(limit, 3), `only ${fence.most} ran at once`)
      assert.equal(fence.ended.size, tasks)
      assert.deepEqual(leftIn(join(spool, '.spoold/dead')), [])
      assert.ok(fence.share >= share, `${fence.share}`)
      await until('all tasks are over', () => leftIn(spool).length === 0)
    })
})

/** Looks at the only slot of a name until the file `stop` is there, and prints how often it was taken, and how often free. */
const LOOKER = `
import { existsSync } from 'node:fs'
import { freeSlots } from '#src/engines/spool/slot-files.js'
const [, spool, stop] = process.argv
const tally = [0, 0]
console.log('looks')
while (!existsSync(stop)) tally[freeSlots(spool, { name: 'one', count: 1 }, 1).length]++
console.log('taken ' + tally[0] + ', free ' + tally[1])`

describe('a look at which slots are free', () => {
  it('takes no slot, not even for a moment', async () => {
    const spool = spoolDirectory()
    const stop = join(dirname(spool), 'stop')
    const args = ['--input-type=module', '-e', LOOKER, spool, stop]
    const looker = new TestProcess(process.execPath, args, { cwd: ROOT })
    await looker.waitFor('looks')
    const take = slotTaker('ofd')
    for (let i = 0; i < 5000; i++) {
      const slot = take(spool, { name: 'one', count: 1 }, 0, new Set())
      assert.ok(slot !== undefined, `it was refused after ${i} times`)
      slot.release()
    }
    writeFileSync(stop, '')
    await looker.waitFor(/taken [1-9]\d*, free [1-9]/)
  })
})
