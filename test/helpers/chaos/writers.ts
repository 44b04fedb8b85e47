import { appendFileSync, closeSync, openSync, readdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { tryHold } from '#src/system/libc.js'
import { spoold } from '../cli.js'
import { drop, packet, taskName } from '../files.js'
import { TestProcess } from '../process.js'
import { isLong, UWSGI } from '../requires.js'
import { Client, STORED, wire } from '../wire.js'
import { Tail } from '../witness.js'
import { ENQUEUING_MULE } from './handlers.js'
import { Random } from './random.js'

interface WritersSetup {
  readonly spool: string
  /** The daemon's unix socket; it may be missing. */
  readonly socket: string
  /** A file with the numbers of all tasks that were acknowledged to their writers. */
  readonly acknowledged: string
  /** A directory for the mule's script. */
  readonly directory: string
  readonly seed: number
  /** The mean pause between two tasks of the writer that renames files. */
  readonly pauseMs: number
  readonly hasOnce: boolean
  readonly hasMule: boolean
  /** True if tasks are claimed with record locks, which other programs take, too. */
  readonly hasRecordLocks: boolean
  /** The handlers' journal, for `locked N` and `unlocked N`. */
  readonly journal: string
}

/** How a guilty task ends its process. */
const CRASHES = ['kill', 'exit', 'abort']
/** A guilty task kills up to four workers; replacing each takes half a second of a core. */
const GUILTY_EVERY_MS = 3000
/** A slow task outlasts the death of a daemon and the start of the next one. */
const SLOW_EVERY_MS = 5000
const SLOW_MS = isLong ? '3000' : '1200'
const CLI_EVERY_MS = 3000
const CLI_TASKS = 5
const MAX_WAITING = 150
/** The share of tasks that the writer itself locks first, as another runner would, until OVERTAKEN_BY later ones have run. */
const LOCKED_SHARE = 0.04
const OVERTAKEN_BY = 3
const LOCKED_MS = 10_000

/** The number encodes the kind of its task: `-o` runs at most once, `-l` at least once; a final `g` means guilty. */
export const isOnce = (n: string): boolean => n.includes('-o')
export const isGuilty = (n: string): boolean => n.endsWith('g')

/** Several writers that enqueue in different ways, until `end` is called. */
export class Writers {
  readonly #setup: WritersSetup
  readonly #random: Random
  readonly #running: Promise<void>[]
  readonly #mule: TestProcess | undefined
  #isEnough = false
  readonly #locks = new Set<Promise<void>>()
  #stored = () => {}
  #lastGuiltyAt = performance.now()
  #lastSlowAt = 0

  constructor(setup: WritersSetup) {
    this.#setup = setup
    this.#random = new Random(setup.seed)
    writeFileSync(setup.acknowledged, '', { flag: 'a' })
    this.#running = [this.#rename(), this.#send(), this.#command()]
    this.#mule = setup.hasMule ? this.#startMule() : undefined
  }

  /** 0 if there is no mule. */
  get mulePid(): number {
    return this.#mule?.pid ?? 0
  }

  async end(): Promise<void> {
    this.#isEnough = true
    this.#mule?.child.kill('SIGKILL')
    for (const pid of this.#mule?.children() ?? []) process.kill(pid, 'SIGKILL')
    await Promise.all(this.#running)
    await Promise.all(this.#locks)
  }

  /** Resolves when the next task is acknowledged over the socket, or after `ms`. */
  async nextStored(ms: number): Promise<void> {
    await Promise.race([setTimeout(ms), new Promise<void>(resolve => (this.#stored = resolve))])
  }

  #note(...numbers: string[]): void {
    appendFileSync(this.#setup.acknowledged, `${numbers.join('\n')}\n`)
  }

  #task(prefix: string, i: number): Record<string, string> {
    const random = this.#random
    const isGuilty = performance.now() - this.#lastGuiltyAt > GUILTY_EVERY_MS
    if (isGuilty) this.#lastGuiltyAt = performance.now()
    const isSlow = !isGuilty && performance.now() - this.#lastSlowAt > SLOW_EVERY_MS
    if (isSlow) this.#lastSlowAt = performance.now()
    const isOnce = this.#setup.hasOnce && random.next() < (isSlow ? 0.5 : 0.25)
    const ms = isSlow ? SLOW_MS : random.weighed({ '': 70, 3: 15, 30: 10, 150: 5 })
    const n = `${prefix}${i}-${isOnce ? 'o' : 'l'}${isGuilty ? 'g' : ''}`
    return {
      n,
      ...(ms === '' ? {} : { ms }),
      ...(random.next() < 0.3 ? { how: 'block' } : {}),
      ...(isOnce ? { spooler_delivery: 'at-most-once' } : {}),
      ...(isGuilty ? { guilty: random.pick(CRASHES) ?? 'kill' } : {}),
    }
  }

  /** Waits, longer on a busy machine, so that kills hit running tasks, and not the start of a backlog. */
  async #pause(ms: number): Promise<void> {
    await setTimeout(this.#random.between(0, 2 * ms))
    while (!this.#isEnough && readdirSync(this.#setup.spool).length > MAX_WAITING) await setTimeout(20)
  }

  /** Enqueues as any program may: writes next to the spool, and renames into it. */
  async #rename(): Promise<void> {
    for (let i = 0; !this.#isEnough; i++) {
      const vars = this.#task('r', i)
      if (this.#setup.hasRecordLocks && this.#random.next() < LOCKED_SHARE) await this.#dropLocked(vars)
      else drop(this.#setup.spool, taskName(), packet(vars))
      this.#note(vars.n ?? '')
      await this.#pause(this.#setup.pauseMs)
    }
  }

  /** Drops a task whose lock is already held, and holds the lock for a while: nobody may run the task meanwhile. */
  async #dropLocked(vars: Readonly<Record<string, string>>): Promise<void> {
    const { spool, journal } = this.#setup
    const draft = join(dirname(spool), `.locked-${vars.n}`)
    writeFileSync(draft, packet(vars), { mode: 0o600 })
    const fd = openSync(draft, 'r+')
    if (!(await tryHold(fd))) throw new Error(`${draft} is locked`)
    appendFileSync(journal, `locked ${vars.n} ${process.pid}\n`)
    renameSync(draft, `${spool}/${taskName()}`)
    const held = this.#overtaken(vars.n ?? '').then(() => {
      appendFileSync(journal, `unlocked ${vars.n} ${process.pid}\n`)
      closeSync(fd)
      this.#locks.delete(held)
    })
    this.#locks.add(held)
  }

  /** Waits until later tasks have run, so that the daemon has met this one, too; for a short time if no more come. */
  async #overtaken(n: string): Promise<void> {
    const journal = new Tail(this.#setup.journal)
    const number = Number.parseInt(n.slice(1), 10)
    const isLater = (line: string) =>
      line.startsWith('end r') && Number.parseInt(line.slice('end r'.length), 10) >= number + OVERTAKEN_BY
    const since = performance.now()
    while (!journal.read().some(isLater) && performance.now() - since < LOCKED_MS) {
      if (this.#isEnough) return setTimeout(Number(SLOW_MS))
      await setTimeout(20)
    }
  }

  /** Enqueues over the daemon's socket, with one connection per task, as uWSGI's clients do. */
  async #send(): Promise<void> {
    for (let i = 0; !this.#isEnough; i++) {
      const vars = this.#task('s', i)
      const answer = await exchange(this.#setup.socket, wire(Object.entries(vars)))
      if (answer === STORED) {
        this.#note(vars.n ?? '')
        this.#stored()
      }
      await this.#pause(3 * this.#setup.pauseMs)
    }
  }

  /** Enqueues with `spoold enqueue`. */
  async #command(): Promise<void> {
    for (let i = 0; !this.#isEnough; i += CLI_TASKS) {
      const tasks = Array.from({ length: CLI_TASKS }, (_, j) => this.#task('c', i + j))
      const input = tasks.map(vars => JSON.stringify(vars)).join('\n')
      const { code } = await spoold(['enqueue', '-q', '--spooler', this.#setup.spool, '--json', '-'], {
        input,
      })
      if (code === 0) this.#note(...tasks.map(({ n }) => n ?? ''))
      await this.#pause(CLI_EVERY_MS)
    }
  }

  #startMule(): TestProcess {
    const { spool, acknowledged, directory, pauseMs } = this.#setup
    const script = `${directory}/mule.py`
    writeFileSync(script, ENQUEUING_MULE(spool, acknowledged, 4 * pauseMs))
    const args = ['--plugin', 'python3', '--master', '--die-on-term', '--spooler-external', spool]
    return new TestProcess(UWSGI, [...args, `--mule=${script}`], { cwd: directory })
  }
}

/** @returns the answer as hex; the part received so far if the daemon is gone, or exits */
async function exchange(socket: string, bytes: Buffer): Promise<string> {
  let client: Client | undefined
  try {
    client = await Client.to(socket)
    client.send(bytes)
    await client.ended(5000)
    return client.received
  } catch {
    return client?.received ?? ''
  } finally {
    client?.close()
  }
}
