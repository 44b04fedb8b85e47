import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after } from 'node:test'
import { type Daemon, startDaemon } from '../daemon.js'
import { isAlive, type TestProcess } from '../process.js'
import { isLong } from '../requires.js'
import { recordOf } from '../spools.js'
import { until } from '../until.js'
import { DEBIAN, startUwsgi } from '../uwsgi.js'
import { Tail } from '../witness.js'
import { spoolDirectory, workspace } from '../workspace.js'
import { Evidence } from './evidence.js'
import { CHAOS_JS, CHAOS_PYTHON, CHAOS_SHELL, type Witnesses } from './handlers.js'
import { descendantsOf, freeze, heldBy, signalQuietly, taskIn } from './kill.js'
import { Pauses } from './pauses.js'
import { Random } from './random.js'
import type { Act, Variant } from './variant.js'
import { Warden } from './warden.js'
import { isGuilty, Writers } from './writers.js'

const READY = /is running \(pid: \d+\)/
const START_MS = 30_000
const STOP_MS = 90_000
const ACKNOWLEDGED_WITHIN_MS = 2000
const LONGEST_SETTLE_MS = 600_000

/** Writers that keep enqueueing, and a daemon that is killed, stopped and started again. */
export class Scene {
  readonly spool: string
  readonly witnesses: Witnesses
  readonly acknowledged: Tail
  readonly evidence: Evidence
  readonly daemons: Daemon[] = []
  /** Daemons that exited unexpectedly. */
  readonly failures: string[] = []
  readonly kills: Partial<Record<Act, number>> = {}
  readonly #variant: Variant
  readonly #random: Random
  readonly #socket: string
  readonly #pauses = new Pauses()
  /** True if a worker was killed or stopped before the daemon was ready, so that the start may fail. */
  #hadBadStart = false
  readonly #warden = new Warden()
  readonly #writers: Writers
  #uwsgi: TestProcess | undefined

  constructor(variant: Variant, seed: number) {
    this.#variant = variant
    this.#random = new Random(seed)
    this.spool = spoolDirectory(variant.base)
    const notes = workspace()
    this.#socket = join(notes, 'socket')
    this.witnesses = { spool: this.spool, journal: join(notes, 'journal'), fences: join(notes, 'fences') }
    mkdirSync(this.witnesses.fences)
    this.evidence = new Evidence(this.witnesses.journal, variant.hasLeases !== true)
    const acknowledged = join(notes, 'acknowledged')
    this.acknowledged = new Tail(acknowledged)
    this.#writers = new Writers({
      spool: this.spool,
      socket: this.#socket,
      acknowledged,
      directory: notes,
      seed: seed + 1,
      pauseMs: variant.pauseMs,
      hasOnce: variant.hasUwsgi !== true,
      hasMule: variant.hasUwsgi === true,
      hasRecordLocks: variant.hasLeases !== true,
      journal: this.witnesses.journal,
    })
    after(() => this.#warden.end())
  }

  get #daemon(): Daemon {
    const daemon = this.daemons.at(-1)
    assert.ok(daemon !== undefined)
    return daemon
  }

  get #isReady(): boolean {
    return READY.test(this.#daemon.output)
  }

  async start(): Promise<void> {
    const { language, ini, hasUwsgi, promisesMs } = this.#variant
    const directory = dirname(this.spool)
    const foreign = { python: 'import', shell: 'spooler-exec' } as const
    const file = join(directory, language === 'python' ? 'chaos.py' : 'chaos.sh')
    if (language !== 'js' && this.daemons.length === 0)
      writeFileSync(file, (language === 'python' ? CHAOS_PYTHON : CHAOS_SHELL)(this.witnesses))
    if (hasUwsgi && this.#uwsgi === undefined)
      this.#uwsgi = startUwsgi({
        uwsgi: DEBIAN,
        spool: this.spool,
        handler: CHAOS_PYTHON(this.witnesses, false),
        args: ['--spooler-processes', '2'],
      })
    const daemon = await startDaemon({
      spool: this.spool,
      ...(language === 'js'
        ? { handler: CHAOS_JS(this.witnesses, promisesMs) }
        : { isForeign: true as const }),
      ini: {
        socket: this.#socket,
        'spooler-processes': 2,
        'spooler-frequency': 1,
        'spooler-quiet': true,
        ...ini,
        ...(language === 'js'
          ? {}
          : { [foreign[language]]: language === 'shell' ? `exec sh ${file}` : file }),
      },
      isUnready: true,
      isGroup: true,
    })
    this.daemons.push(daemon)
    this.#hadBadStart = false
    this.evidence.note(`daemon ${daemon.pid} is started`)
    this.#see()
  }

  async ready(): Promise<void> {
    while (!this.#isReady) {
      await until('the daemon runs', () => this.#isReady || !this.#daemon.isRunning, START_MS)
      if (this.#daemon.isRunning) continue
      assert.ok(this.#hadBadStart, `the daemon did not start:\n${this.#daemon.output}`)
      await this.start()
    }
    this.#see()
  }

  /** Waits until the daemon is ready, and a task runs. */
  async busy(): Promise<void> {
    await this.ready()
    await until('a task runs', () => this.evidence.isAnyRunning, START_MS)
  }

  /** Carries out an act, by default a random one, on a random process. @returns whether a process was killed */
  async act(act: Act = this.#random.weighed(this.#variant.acts)): Promise<boolean> {
    this.#see()
    if (!this.#daemon.isRunning) {
      if (!this.#hadBadStart)
        this.failures.push(`daemon ${this.#daemon.pid} ended by itself:\n${this.#daemon.output.slice(-3000)}`)
      await this.start()
      return false
    }
    if (!this.#isReady && (act === 'kill-worker' || act === 'kill-below')) this.#hadBadStart = true
    const isDone = await this.#acts[act]()
    if (isDone) this.kills[act] = (this.kills[act] ?? 0) + 1
    return isDone && (act.startsWith('kill') || act === 'quit')
  }

  readonly #acts: Readonly<Record<Act, () => Promise<boolean>>> = {
    'kill-worker': () => this.#kill('worker', this.#one(this.#daemon.children())),
    'kill-uwsgi': async () => {
      const [pid] = this.#one(this.#uwsgi?.children() ?? [])
      if (pid === undefined || !(await this.#freeze(pid))) return false
      this.evidence.toBeKilled(`kill of uWSGI spooler ${pid}`, await heldBy(pid, this.spool))
      return signalQuietly(pid, 'SIGKILL')
    },
    'kill-master': async () => {
      await this.#momentToKill()
      await this.#kill('master', [this.#daemon.pid])
      await this.#again()
      return true
    },
    'kill-all': async () => {
      await this.#momentToKill()
      const { pid } = this.#daemon
      const workers = this.#daemon.children()
      const below = this.#random.next() < 0.5 ? workers.flatMap(descendantsOf) : []
      await this.#kill('all', [pid, ...workers, ...below])
      await this.#again()
      return true
    },
    'kill-below': async () => {
      const [worker] = this.#one(this.#daemon.children())
      const [below] = this.#one(worker === undefined ? [] : descendantsOf(worker))
      if (worker === undefined || below === undefined) return false
      if ((await this.#freeze(below)) && (await this.#freeze(worker)))
        this.evidence.killedBelow(`${below} below worker ${worker}`, below, await heldBy(worker, this.spool))
      signalQuietly(below, 'SIGKILL')
      signalQuietly(worker, 'SIGCONT')
      return true
    },
    'pause-worker': async () => this.#pause(this.#one(this.#daemon.children())),
    'pause-master': async () => this.#pause([this.#daemon.pid]),
    'pause-below': async () => this.#pause(this.#one(this.#daemon.children().flatMap(descendantsOf))),
    stop: () => this.#end('SIGTERM'),
    quit: async () => {
      await this.ready()
      for (const pid of this.#daemon.workers()) {
        if (!(await this.#freeze(pid))) continue
        const held = await heldBy(pid, this.spool)
        // with leases the mark cannot be undone, so the run counts as a crash; the log says so
        if (this.#variant.hasLeases === true) this.evidence.killed(`SIGQUIT of worker ${pid}`, held)
        else this.evidence.toBeKilled(`SIGQUIT of worker ${pid}`, held)
      }
      return this.#end('SIGQUIT')
    },
    reload: async () => {
      await this.ready()
      this.evidence.note('SIGHUP')
      return signalQuietly(this.#daemon.pid, 'SIGHUP')
    },
  }

  /** Waits, half of the time, until a task was acknowledged over the socket. */
  async #momentToKill(): Promise<void> {
    if (this.#random.next() < 0.5) return
    await this.ready()
    await this.#writers.nextStored(ACKNOWLEDGED_WITHIN_MS)
  }

  #one(pids: readonly number[]): number[] {
    const pid = this.#random.pick(pids.filter(isAlive))
    return pid === undefined ? [] : [pid]
  }

  #freeze(pid: number): Promise<boolean> {
    this.#pauses.forget(pid)
    return freeze(pid)
  }

  /** Kills processes. All are stopped before any is examined, and none resumes before it is killed. */
  async #kill(what: string, pids: readonly number[]): Promise<boolean> {
    const frozen: number[] = []
    for (const pid of pids) if (await this.#freeze(pid)) frozen.push(pid)
    for (const pid of frozen) this.evidence.killed(`${what} ${pid}`, await heldBy(pid, this.spool))
    for (const pid of frozen) signalQuietly(pid, 'SIGKILL')
    await until(`${frozen.join(', ')} are gone`, () => !frozen.some(isAlive))
    return frozen.length > 0
  }

  #pause([pid]: readonly number[]): boolean {
    const ms = this.#random.between(20, this.#random.next() < 0.7 ? 200 : 1500)
    const isDone = pid !== undefined && this.#pauses.pause(pid, ms)
    if (isDone) this.evidence.note(`pause ${pid} for ${Math.round(ms)} ms`)
    return isDone
  }

  async #end(signal: 'SIGTERM' | 'SIGQUIT'): Promise<boolean> {
    await this.ready()
    this.#pauses.endAll()
    this.evidence.note(signal)
    this.#daemon.child.kill(signal)
    const code = await this.#daemon.code(STOP_MS)
    if (code !== 0)
      this.failures.push(`${signal}: exit code ${code}, output:\n${this.#daemon.output.slice(-3000)}`)
    await this.#again()
    return true
  }

  /** Starts the daemon again; half of the time, it does not wait until the daemon is ready. */
  async #again(): Promise<void> {
    await this.start()
    if (this.#random.next() < 0.5) await this.ready()
  }

  #see(): void {
    const pids = [this.#daemon.pid, this.#uwsgi?.pid ?? 0, this.#writers.mulePid].filter(pid => pid > 0)
    this.#warden.watch(pids.flatMap(pid => [pid, ...descendantsOf(pid)]))
  }

  /** Keeps the journal and the logs, to debug a failure. */
  #keep(): void {
    const { SPOOLD_TEST_CHAOS_KEEP: directory } = process.env
    if (directory === undefined) return
    cpSync(this.witnesses.journal, join(directory, `journal-${process.pid}-${this.#daemon.pid}`))
    const log = this.daemons.map(({ pid, output }) => `--- ${pid}\n${output}`).join('')
    writeFileSync(join(directory, `log-${process.pid}-${this.#daemon.pid}`), log)
  }

  /** Returns the files left in the spool, tasks and others. */
  #left(): LeftFile[] {
    const entries = readdirSync(this.spool, { withFileTypes: true })
    const files = entries.filter(entry => entry.isFile() && !entry.name.startsWith('.'))
    return files.map(({ name: path }) => {
      const n = taskIn(join(this.spool, path), path)?.n
      const isLeased = !isLong && n !== undefined && (this.evidence.cuts.has(n) || isGuilty(n))
      const waitsForMore = n !== undefined && isGuilty(n) && recordOf(this.spool, path) !== undefined
      return { path, n, isExpected: waitsForMore || (this.#variant.hasLeases === true && isLeased) }
    })
  }

  /** Waits until all tasks are done, or nothing happens for `patienceMs`. @returns the files still in the spool */
  async settle(patienceMs: number): Promise<LeftFile[]> {
    this.#pauses.endAll()
    await this.#writers.end()
    await this.ready()
    this.evidence.note('enough')
    let [lines, since] = [0, performance.now()]
    await until(
      'nothing is left, or nothing happens',
      () => {
        const { length } = this.evidence.journal.read()
        if (length > lines) [lines, since] = [length, performance.now()]
        return performance.now() - since > patienceMs || this.#left().every(({ isExpected }) => isExpected)
      },
      LONGEST_SETTLE_MS,
    )
    this.evidence.note('it is over')
    this.#keep()
    return this.#left()
  }
}

/** A file in the spool at the end. */
export interface LeftFile {
  readonly path: string
  readonly n: string | undefined
  /** True if the task is guilty and waits for its next run, or if its process was killed and its lease has not expired. */
  readonly isExpected: boolean
}
