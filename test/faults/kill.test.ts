import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { isAlive, type TestProcess } from '../helpers/process.js'
import { acknowledgedFile, isOnce, startProducer } from '../helpers/producer.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { assertWitnessed, Tail, WITNESS, type WitnessedRun } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'

const KILLS = isLong ? 200 : 12
const WORKER_KILLS = isLong ? 500 : 30
/** In ms. A second is what we want; a machine that is busy with other things must not fail the test. */
const BACK_TO_WORK_MS = 10_000
const PRODUCERS = 2
const PAUSE_MS = 10

const random = (ms: number) => Math.random() * ms

/** Producers that write all the while, and a daemon that may be killed and started as often as a test likes. */
class Scene {
  readonly spool = spoolDirectory()
  readonly directory = dirname(this.spool)
  readonly journal = new Tail(join(this.directory, 'journal'))
  readonly acknowledged = new Tail(acknowledgedFile(this.directory))
  readonly backToWorkMs: number[] = []
  producers: TestProcess[] = []
  #generation = 0

  startProducers(): void {
    const generation = this.#generation++
    this.producers = Array.from({ length: PRODUCERS }, (_, i) =>
      startProducer(this.spool, this.directory, `${generation}-${i}`, PAUSE_MS),
    )
  }

  start(isUnready = true): Promise<Daemon> {
    const ini = { 'spooler-processes': 2, 'spooler-frequency': 1, 'spooler-quiet': true }
    return startDaemon({ spool: this.spool, handler: WITNESS, ini, isUnready, isGroup: true })
  }

  /** Waits until the moment of a kill: in the middle of the daemon's work, or, every other time, anywhere in its start. */
  async killMoment({ pid }: TestProcess, isAtWork: boolean): Promise<void> {
    if (!isAtWork) return setTimeout(random(500))
    const since = performance.now()
    const first = this.journal.read().length
    await until('the daemon is back to work', () => this.#hasBegun(pid, first), BACK_TO_WORK_MS)
    this.backToWorkMs.push(performance.now() - since)
    await setTimeout(random(100))
  }

  #hasBegun(master: number, first: number): boolean {
    const lines = this.journal.read()
    for (let i = first; i < lines.length; i++) if (lines[i]?.split(' ')[3] === String(master)) return true
    return false
  }

  /** Lets everything come to its end, and checks every task. */
  async assertNothingLost(wasKilled: (run: WitnessedRun) => boolean): Promise<string> {
    await until('the producers have stored enough', () => this.acknowledged.read().length > KILLS)
    writeFileSync(`${acknowledgedFile(this.directory)}-enough`, '')
    for (const producer of this.producers) assert.equal(await producer.code(), 0, producer.output)
    const isTask = (name: string) => !name.startsWith('.')
    await until('nothing is left', () => !leftIn(this.spool).some(isTask), 60_000)
    const acknowledged = this.acknowledged.read()
    const counts = await assertWitnessed({
      spool: this.spool,
      journal: this.journal.read(),
      acknowledged,
      isOnce,
      wasKilled,
    })
    return `${acknowledged.length} tasks, ${counts.reruns} run again, ${counts.buried} buried`
  }

  get timesBack(): string {
    const sorted = [...this.backToWorkMs].sort((a, b) => a - b)
    const at = (share: number) => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0)
    return `back to work after ${at(0.5)} ms (median), ${at(0.9)} ms (9 of 10), ${at(1)} ms (longest)`
  }
}

/** Returns a worker that is at work, or any worker, in whatever state of its start. */
function victim(daemon: Daemon, scene: Scene, isAtWork: boolean): number | undefined {
  const alive = daemon.workers().filter(isAlive)
  if (!isAtWork) return alive[Math.floor(random(alive.length))]
  const lines = scene.journal.read().slice(-20)
  const pids = lines.filter(line => line.startsWith('start')).map(line => Number(line.split(' ')[2]))
  return pids.reverse().find(pid => alive.includes(pid))
}

/** The longest pause before a respawn, in ms. */
const LONGEST_PAUSE_MS = 40_000

describe('kill -9 while producers write and handlers run', () => {
  it(`of the master, ${KILLS} times, loses no task, and makes none run again`, async t => {
    const scene = new Scene()
    scene.startProducers()
    for (let i = 0; i < KILLS; i++) {
      const daemon = await scene.start()
      await scene.killMoment(daemon, i % 2 === 0)
      daemon.child.kill('SIGKILL')
      await until('the daemon is gone', () => !daemon.isRunning)
    }
    await scene.start(false)
    // The workers notice, and finish what they run.
    t.diagnostic(`${await scene.assertNothingLost(() => false)}; ${scene.timesBack}`)
  })

  it(`of workers, ${WORKER_KILLS} times, loses no task, and only what they ran runs again`, async t => {
    const scene = new Scene()
    scene.startProducers()
    const daemon = await scene.start(false)
    const killed = new Set<number>()
    const ends = () => scene.journal.read().filter(line => line.startsWith('end')).length
    for (let i = 0; i < WORKER_KILLS; i++) {
      // Without a task that ends in between, each worker would be spawned later than the last (base/respawn-pace).
      const before = ends()
      await until('a task has ended', () => ends() > before, LONGEST_PAUSE_MS)
      const worker = await until('the daemon has a worker', () => victim(daemon, scene, i % 4 !== 0))
      killed.add(worker)
      process.kill(worker, 'SIGKILL')
      await setTimeout(random(60))
    }
    t.diagnostic(await scene.assertNothingLost(({ pid }) => killed.has(pid)))
  })

  it(`of everything at once, ${KILLS} times, loses no task, and only what ran runs again`, async t => {
    const scene = new Scene()
    const killed = new Set<number>()
    for (let i = 0; i < KILLS; i++) {
      scene.startProducers()
      const daemon = await scene.start()
      await scene.killMoment(daemon, i % 2 === 0)
      killed.add(daemon.pid)
      for (const producer of scene.producers) producer.child.kill('SIGKILL')
      process.kill(-daemon.pid, 'SIGKILL')
      await until('the daemon is gone', () => !daemon.isRunning)
    }
    scene.startProducers()
    const last = await scene.start(false)
    assert.ok(!killed.has(last.pid))
    t.diagnostic(`${await scene.assertNothingLost(({ master }) => killed.has(master))}; ${scene.timesBack}`)
  })
})
