import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Batch } from '#src/index.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { FENCED, FENCED_PYTHON } from '../helpers/fence.js'
import { leftIn } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { isOnce } from '../helpers/producer.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { assertWitnessed, Tail } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TASKS = isLong ? 20_000 : 1000
const SHARED_TASKS = isLong ? 10_000 : 500
const WORKERS = isLong ? 8 : 2
const MORE_TASKS = 100
/** How many tasks each side has to run at least; uWSGI comes to the spool only every few seconds. */
const LEAST_SHARE = 20
const KILLS = isLong ? 200 : 12
const PATIENCE_MS = isLong ? 900_000 : 45_000

class Crowd {
  readonly spool = spoolDirectory()
  readonly directory = dirname(this.spool)
  readonly fences = join(this.directory, 'fences')
  readonly journal = new Tail(join(this.directory, 'journal'))
  readonly numbers: string[] = []
  readonly killed = new Set<number>()
  readonly #onceShare: boolean

  constructor(hasOnce: boolean) {
    mkdirSync(this.fences)
    this.#onceShare = hasOnce
  }

  isOnce(n: string): boolean {
    return this.#onceShare && isOnce(n)
  }

  async fill(tasks: number): Promise<void> {
    const batch = new Batch({ spooler: this.spool, sync: false })
    const first = this.numbers.length
    for (let i = first; i < first + tasks; i++) {
      const n = `t.${i}`
      this.numbers.push(n)
      const ms = Math.floor(Math.random() * 20)
      batch.add({ n, ms, ...(this.isOnce(n) ? { spooler_delivery: 'at-most-once' } : {}) })
    }
    await batch.spool()
  }

  /** Adds tasks, a few at a time, until `isEnough`. */
  fillUntil(what: string, isEnough: () => boolean): Promise<boolean> {
    return until(
      what,
      async () => {
        this.journal.read()
        if (!isEnough() && leftIn(this.spool).length < MORE_TASKS) await this.fill(MORE_TASKS)
        return isEnough()
      },
      PATIENCE_MS,
    )
  }

  /** How many runs ended, by process. */
  get ends(): Map<string, number> {
    const ends = new Map<string, number>()
    for (const line of this.journal.lines) {
      const [word, , pid = ''] = line.split(' ')
      if (word === 'end') ends.set(pid, (ends.get(pid) ?? 0) + 1)
    }
    return ends
  }

  startDaemons(count: number): Promise<Daemon[]> {
    const ini = { 'spooler-processes': WORKERS, 'spooler-frequency': 1, 'spooler-quiet': true }
    const setup = { spool: this.spool, handler: FENCED(this.fences), ini }
    return Promise.all(Array.from({ length: count }, () => startDaemon(setup)))
  }

  /** True if a task is left; a file that a killed worker was about to remove has a hidden name. */
  hasTasks(): boolean {
    return leftIn(this.spool).some(name => !name.startsWith('.'))
  }

  /** Kills workers at random while there is something to run. */
  async killSome(daemons: readonly Daemon[]): Promise<void> {
    for (let i = 0; i < KILLS && this.hasTasks(); i++) {
      const workers = daemons.flatMap(daemon => daemon.workers()).filter(isAlive)
      const worker = workers[Math.floor(Math.random() * workers.length)]
      if (worker !== undefined) {
        this.killed.add(worker)
        process.kill(worker, 'SIGKILL')
      }
      await setTimeout(Math.random() * 200)
    }
  }

  async assertFenced(): Promise<string> {
    await until('nothing is left', () => !this.hasTasks(), PATIENCE_MS)
    const journal = this.journal.read()
    assert.deepEqual(
      journal.filter(line => line.startsWith('DOUBLE')),
      [],
    )
    const counts = await assertWitnessed({
      spool: this.spool,
      journal,
      acknowledged: this.numbers,
      isOnce: n => this.isOnce(n),
      wasKilled: ({ pid }) => this.killed.has(pid),
    })
    return `${this.killed.size} kills, ${counts.reruns} run again, ${counts.buried} buried`
  }
}

describe('a crowd on one directory', () => {
  it(`of four daemons of ${WORKERS} workers runs ${TASKS} tasks while workers are killed: one runner at a time, none lost`, async t => {
    const crowd = new Crowd(true)
    const daemons = await crowd.startDaemons(4)
    const filled = crowd.fill(TASKS)
    await until('work has begun', () => crowd.journal.read().length > 10)
    await crowd.killSome(daemons)
    await filled
    await crowd.fillUntil('workers of more than two daemons took part', () => crowd.ends.size > 2 * WORKERS)
    t.diagnostic(await crowd.assertFenced())
  })

  for (const uwsgi of UWSGIS)
    it(`of two daemons and two of ${uwsgi.title} runs ${SHARED_TASKS} tasks: one runner at a time, none lost`, {
      skip: skipUnless(uwsgi.needs),
    }, async t => {
      const crowd = new Crowd(false)
      const peers = [1, 2].map(() =>
        startUwsgi({
          uwsgi,
          spool: crowd.spool,
          handler: FENCED_PYTHON(crowd.fences),
          args: ['--spooler-processes', '2'],
        }),
      )
      for (const peer of peers) await peer.waitFor(/spawned the uWSGI spooler/)
      const daemons = await crowd.startDaemons(2)
      const filled = crowd.fill(SHARED_TASKS)
      await until('work has begun', () => crowd.journal.read().length > 10)
      await crowd.killSome(daemons)
      await filled
      const spoolers = new Set(peers.flatMap(peer => peer.children()).map(String))
      const shares = () => {
        const ends = [...crowd.ends]
        const sum = (of: typeof ends) => of.reduce((total, [, count]) => total + count, 0)
        const theirs = sum(ends.filter(([pid]) => spoolers.has(pid)))
        return [theirs, sum(ends) - theirs]
      }
      await crowd.fillUntil('both had their share', () => shares().every(share => share > LEAST_SHARE))
      t.diagnostic(await crowd.assertFenced())
      t.diagnostic(`uWSGI and spoold ran ${shares().join(' and ')}`)
    })
})
