import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { HEADER_BYTES } from '#src/formats/protocol/header.js'
import { lastValue, parseVars } from '#src/formats/protocol/vars.js'
import type { Random } from '../chaos/random.js'
import { writeIni } from '../daemon.js'
import { isAlive, TestProcess } from '../process.js'
import { patience, until } from '../until.js'
import { BIN, ROOT, workspace } from '../workspace.js'
import { HANDLER, PRODUCER } from './handlers.js'
import { HUB_ADDRESS, Network } from './network.js'
import { type Evidence, judge, type Trouble } from './verdict.js'

export type Fsync = 'always' | 'everysec'

const MACHINES = 4
const PORT = 6379
const SPOOLER = `redis://${HUB_ADDRESS}:${PORT}/0/app`
/** Half of the tasks without a limit are delivered at most once. Long ones are likely to be running when something dies. */
const TASKS = [
  ...[20, 20, 60, 60, 150, 150, 400, 400, 900, 900].map((ms, i) => ({
    ms,
    kind: i % 2 === 0 ? 'once' : 'often',
  })),
  { ms: 50, kind: 'few' },
]
const QUEUES = ['bull:app', 'bull:app@few']
/** Violations that time may still put right. */
const UNSETTLED = /is lost$/
/** Where tasks are that have not ended. A task whose lock has expired is due again. */
const STATES = ['prioritized', 'delayed'] as const
const LISTS = ['wait', 'active'] as const

const now = () => Math.round(performance.timeOrigin + performance.now())

/** Four machines with a daemon each, a Redis and a producer in the hub, and all that may happen to them. */
export class Scene {
  readonly #random: Random
  readonly #fsync: Fsync
  readonly #directory = workspace()
  readonly #journal = join(this.#directory, 'journal')
  readonly #socket = join(this.#directory, 'redis.sock')
  readonly #network = new Network(MACHINES)
  readonly #daemons: (TestProcess | undefined)[] = []
  readonly #troubles: Trouble[] = []
  readonly #client = new Redis({ path: this.#socket, retryStrategy: () => 50, maxRetriesPerRequest: null })
  readonly counts: Record<string, number> = {}
  #redis: TestProcess | undefined
  /** The largest patience so far. */
  #patience = 1

  constructor(random: Random, fsync: Fsync) {
    this.#random = random
    this.#fsync = fsync
    writeFileSync(this.#journal, '')
    writeFileSync(join(this.#directory, 'handler.mjs'), HANDLER(this.#journal))
    writeIni(join(this.#directory, 'app.ini'), {
      spooler: SPOOLER,
      'spooler-import': join(this.#directory, 'handler.mjs'),
      'spooler-processes': 2,
      'spooler-concurrency': 3,
      'spooler-frequency': 1,
      'spooler-max-crashes': 0,
      'spooler-quiet': true,
    })
    this.#client.on('error', () => {}) // Redis is killed on purpose
    after(() => this.#client.disconnect())
  }

  #start(machine: number | undefined, command: readonly string[], isGroup = false): TestProcess {
    const [first = '', ...args] = [...this.#network.on(machine), ...command]
    return new TestProcess(first, args, { cwd: this.#directory, isGroup })
  }

  async startRedis(): Promise<void> {
    const settings = {
      ...{ port: PORT, bind: HUB_ADDRESS, unixsocket: this.#socket, dir: this.#directory, save: '""' },
      ...{ 'protected-mode': 'no', appendonly: 'yes', appendfsync: this.#fsync },
    }
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
    this.#redis = this.#start(undefined, ['redis-server', ...args])
    await this.#redis.waitFor('Ready to accept connections')
  }

  async startDaemon(machine: number): Promise<void> {
    const daemon = this.#start(machine, [process.execPath, BIN, 'app.ini'], true)
    this.#daemons[machine] = daemon
    await daemon.waitFor(/is running \(pid: \d+\)/)
  }

  async startDaemons(): Promise<void> {
    await Promise.all(Array.from({ length: MACHINES }, (_, machine) => this.startDaemon(machine)))
  }

  /** Starts a process that stores `count` tasks. Redis may refuse some, which are not in the journal. */
  produce(count: number, perSecond: number): TestProcess {
    const callers = 4
    const settings = { journal: this.#journal, spooler: SPOOLER, count, callers, tasks: TASKS }
    const code = PRODUCER({ ...settings, pauseMs: (1000 * callers) / perSecond })
    const [first = '', ...rest] = this.#network.on(undefined)
    const args = [...rest, process.execPath, '--input-type=module', '-e', code]
    return new TestProcess(first, args, { cwd: ROOT })
  }

  #pidsOf(machine: number): number[] {
    const daemon = this.#daemons[machine]
    return daemon === undefined ? [] : [daemon.pid, ...daemon.children()].filter(isAlive)
  }

  #trouble(what: Trouble['what'], pids: readonly number[] | undefined, from: number): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
    this.#patience = Math.max(this.#patience, patience())
    this.#troubles.push({ what, pids: pids?.map(String), from, to: now() })
  }

  /** Kills a random worker of the machine, if there is one. */
  killWorker(machine: number): void {
    const [, ...workers] = this.#pidsOf(machine)
    const pid = this.#random.pick(workers)
    if (pid === undefined) return
    this.#trouble('worker', [pid], now())
    try {
      process.kill(pid, 'SIGKILL')
    } catch {} // the worker has just ended by itself
  }

  async killDaemon(machine: number): Promise<void> {
    const [pids, daemon] = [this.#pidsOf(machine), this.#daemons[machine]]
    if (daemon === undefined) return
    this.#trouble('daemon', pids, now())
    process.kill(-daemon.pid, 'SIGKILL')
    await until('the daemon has ended', () => !daemon.isRunning)
    await this.startDaemon(machine)
  }

  async killRedis(): Promise<void> {
    const [redis, from] = [this.#redis, now()]
    redis?.child.kill('SIGKILL')
    await until('Redis has ended', () => redis?.isRunning !== true)
    await sleep(this.#random.between(0, 1500))
    await this.startRedis()
    await sleep(1000) // by then, everybody is connected again
    this.#trouble('redis', undefined, from)
  }

  async cut(machine: number, ms: number): Promise<void> {
    const [pids, from] = [this.#pidsOf(machine), now()]
    this.#network.cut(machine)
    await sleep(ms)
    this.#network.restore(machine)
    this.#trouble('cut', [...new Set([...pids, ...this.#pidsOf(machine)])], from)
  }

  async stop(machine: number, ms: number): Promise<void> {
    const [pids, from] = [this.#pidsOf(machine), now()]
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    await sleep(ms)
    for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGCONT')
    this.#trouble('stop', pids, from)
  }

  /** Does `what` to one of the machines, or to Redis. */
  async act(what: Trouble['what']): Promise<void> {
    const machine = Math.floor(this.#random.between(0, MACHINES))
    const ms = this.#random.between(300, 4000)
    if (what === 'worker') this.killWorker(machine)
    else if (what === 'daemon') await this.killDaemon(machine)
    else if (what === 'redis') await this.killRedis()
    else await this[what](machine, ms)
  }

  async #left(): Promise<number> {
    const counts = await Promise.all(
      QUEUES.flatMap(queue => [
        ...STATES.map(state => this.#client.zcard(`${queue}:${state}`)),
        ...LISTS.map(list => this.#client.llen(`${queue}:${list}`)),
      ]),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /** Waits until all tasks have ended, done or dead. @returns the verdict */
  async settle(patienceMs: number): Promise<ReturnType<typeof judge>> {
    const isQuiet = async () => (await this.#left()) === 0
    await until('nothing is left', isQuiet, patienceMs).catch(() => {})
    return await until(
      'all tasks are settled',
      async () => {
        const verdict = judge(await this.#evidence())
        return verdict.violations.some(each => UNSETTLED.test(each)) ? undefined : verdict
      },
      1000,
    ).catch(async () => judge(await this.#evidence()))
  }

  async #evidence(): Promise<Evidence> {
    const journal = readFileSync(this.#journal, 'utf8').split('\n').filter(Boolean)
    const dead = new Map<string, string>()
    for (const queue of QUEUES)
      for (const id of await this.#client.zrange(`${queue}:failed`, 0, -1)) {
        const [data, progress] = await this.#client.hmget(`${queue}:${id}`, 'data', 'progress')
        const packet = Buffer.from(JSON.parse(data ?? '{}').packet, 'base64')
        const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
        const args = 'fault' in vars ? undefined : lastValue(vars, 'args')
        const n = 'fault' in vars ? id : (lastValue(vars, 'n') ?? String(JSON.parse(args ?? '[]')[0]))
        dead.set(n, String(JSON.parse(progress ?? '{}').reason))
      }
    return {
      journal,
      dead,
      troubles: this.#troubles,
      isAlways: this.#fsync === 'always',
      patience: this.#patience,
    }
  }
}
