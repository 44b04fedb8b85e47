import { appendFileSync, readdirSync, writeFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { spoold } from '../cli.js'
import { drop, packet, taskName } from '../files.js'
import { TestProcess } from '../process.js'
import { isLong } from '../requires.js'
import { Client, STORED, wire } from '../wire.js'
import { ENQUEUING_MULE } from './handlers.js'
import { Random } from './random.js'

interface WritersSetup {
  readonly spool: string
  /** The daemon's unix socket; it may be away. */
  readonly socket: string
  /** A file of the numbers of all tasks whose writer was told that they are stored. */
  readonly acknowledged: string
  /** Where the mule's script may lie. */
  readonly directory: string
  readonly seed: number
  /** Between two tasks of the writer that renames. */
  readonly pauseMs: number
  readonly hasOnce: boolean
  readonly hasMule: boolean
}

/** How a guilty task ends its process. */
const CRASHES = ['kill', 'exit', 'abort']
/** A guilty task costs up to four workers, which take half a second of a core each. */
const GUILTY_EVERY_MS = 3000
/** A slow task spans the death of a daemon and the start of the next one. */
const SLOW_EVERY_MS = 5000
const SLOW_MS = isLong ? '3000' : '1200'
const CLI_EVERY_MS = 3000
const CLI_TASKS = 5
const MAX_WAITING = 150

/** A number says what its task is: `-o` to run at most once, `-l` at least once, `-g` guilty. */
export const isOnce = (n: string): boolean => n.includes('-o')
export const isGuilty = (n: string): boolean => n.endsWith('g')

/** Several that enqueue in their own ways, until they are told that it is enough. */
export class Writers {
  readonly #setup: WritersSetup
  readonly #random: Random
  readonly #running: Promise<void>[]
  readonly #mule: TestProcess | undefined
  #isEnough = false
  #lastGuiltyAt = performance.now()
  #lastSlowAt = 0

  constructor(setup: WritersSetup) {
    this.#setup = setup
    this.#random = new Random(setup.seed)
    writeFileSync(setup.acknowledged, '', { flag: 'a' })
    this.#running = [this.#rename(), this.#send(), this.#command()]
    this.#mule = setup.hasMule ? this.#startMule() : undefined
  }

  /** 0 when there is none. */
  get mulePid(): number {
    return this.#mule?.pid ?? 0
  }

  async end(): Promise<void> {
    this.#isEnough = true
    this.#mule?.child.kill('SIGKILL')
    for (const pid of this.#mule?.children() ?? []) process.kill(pid, 'SIGKILL')
    await Promise.all(this.#running)
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

  /** On a busy machine kills are to fall among tasks that run, not in front of a backlog. */
  async #pause(ms: number): Promise<void> {
    await setTimeout(this.#random.between(0, 2 * ms))
    while (!this.#isEnough && readdirSync(this.#setup.spool).length > MAX_WAITING) await setTimeout(20)
  }

  /** As any program does it: written beside the spool, renamed into it. */
  async #rename(): Promise<void> {
    for (let i = 0; !this.#isEnough; i++) {
      const vars = this.#task('r', i)
      drop(this.#setup.spool, taskName(), packet(vars))
      this.#note(vars.n ?? '')
      await this.#pause(this.#setup.pauseMs)
    }
  }

  /** Over the daemon's socket, a connection each, as uWSGI's clients do. */
  async #send(): Promise<void> {
    for (let i = 0; !this.#isEnough; i++) {
      const vars = this.#task('s', i)
      const answer = await exchange(this.#setup.socket, wire(Object.entries(vars)))
      if (answer === STORED) this.#note(vars.n ?? '')
      await this.#pause(3 * this.#setup.pauseMs)
    }
  }

  /** With `spoold enqueue`. */
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
    return new TestProcess('uwsgi', [...args, `--mule=${script}`], { cwd: directory })
  }
}

/** @returns the answer as hex; what came of it when the daemon is away, or leaves */
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
