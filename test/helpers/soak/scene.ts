import { appendFileSync, chmodSync, chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeToken } from '#src/admin/operate/dashboard-tokens.js'
import { USER } from '../canaries.js'
import type { Random } from '../chaos/random.js'
import { spoold } from '../cli.js'
import { writeIni } from '../daemon.js'
import { Browser } from '../dashboard.js'
import { childrenOf, isAlive, TestProcess } from '../process.js'
import { PYTHON } from '../python.js'
import { smallDisk } from '../small-disk.js'
import { patience, until } from '../until.js'
import { deadOf, Tail } from '../witness.js'
import { BIN, ROOT, workspace } from '../workspace.js'
import { NODE_TASKS, PRODUCER, PYTHON_TASKS } from './handlers.js'
import { type Evidence, judge, type Pause } from './verdict.js'

export const LIMIT = 3
const TICK_MS = 1000
const MAX_CRASHES = 3
const DISK_MB = 48
/** How long after a pause a spool may still start tasks. */
const OBEYED_WITHIN_MS = 1000
const STOPPED_WITHIN_MS = 60_000

/** How often each kind is among the stored tasks. Limited tasks run so long that all slots are in use now and then. */
const KINDS = [
  { kind: 'plain', weight: 50, longestMs: 60 },
  { kind: 'snake', weight: 15, longestMs: 60 },
  { kind: 'few', weight: 20, longestMs: 400 },
  { kind: 'once', weight: 14, longestMs: 60 },
  { kind: 'poison', weight: 0.5, longestMs: 0 },
] as const

/** Pages of the first spool, and of all. */
const PAGES = [
  '',
  '/waiting',
  '/running',
  '/retrying',
  '/held',
  '/parked',
  '/dead',
  '/find?state=due',
  '/named',
]
const MORE_PAGES = ['/workers', '/audit']

/** Violations that time may still put right. */
const UNSETTLED = /is lost$|was not buried for its crashes: undefined$/

type Name = 'steady' | 'other'
const now = () => Math.round(performance.timeOrigin + performance.now())

/** Two daemons on two spools of one small disk, a producer, and all that may happen to them. */
export class Soak {
  readonly #random: Random
  readonly #directory = workspace()
  readonly #disk = smallDisk(`size=${DISK_MB}m`)
  readonly #journal = join(this.#directory, 'journal')
  readonly #spools = { node: join(this.#disk, 'node'), python: join(this.#disk, 'python') }
  readonly #enough = join(this.#directory, 'enough')
  readonly #tokens = join(this.#directory, 'tokens')
  readonly #token = makeToken({ name: 'alice', role: 'admin', mayReadPayload: true })
  readonly #pauses: Pause[] = []
  readonly #daemons = new Map<Name, TestProcess>()
  readonly counts: Record<string, number> = {}
  #browser: Browser | undefined

  constructor(random: Random) {
    this.#random = random
    writeFileSync(this.#journal, '')
    writeFileSync(join(this.#directory, 'tasks.mjs'), NODE_TASKS(this.#journal, LIMIT))
    writeFileSync(join(this.#directory, 'tasks.py'), PYTHON_TASKS(this.#journal))
    writeFileSync(this.#tokens, this.#token.line, { mode: 0o600 })
    for (const path of Object.values(this.#spools)) mkdirSync(path, { mode: 0o750 })
    chmodSync(this.#directory, 0o755)
    const theirs = [this.#directory, this.#journal, this.#tokens, ...Object.values(this.#spools)]
    for (const path of theirs) chownSync(path, USER, USER)
    this.#configure('steady', 'latency')
    this.#configure('other', 'spare')
  }

  #configure(name: Name, algorithm: string): void {
    const isSteady = name === 'steady'
    const python = `python=${PYTHON},python-import=${join(this.#directory, 'tasks.py')}`
    writeIni(join(this.#directory, `${name}.ini`), {
      ...{ uid: USER, gid: USER },
      ...(isSteady ? { 'spooler-dashboard': '127.0.0.1:0', 'spooler-dashboard-tokens': this.#tokens } : {}),
      spooler: this.#spools.node,
      'spooler-import': join(this.#directory, 'tasks.mjs'),
      'spooler-concurrency': 4,
      'spooler-processes': 4,
      'spooler-cheaper': 1,
      'spooler-cheaper-algo': algorithm,
      'spooler-max-tasks': 300,
      'spooler-frequency': 1,
      'spooler-quiet': true,
      'spooler-max-crashes': MAX_CRASHES,
      spooler2: `dir=${this.#spools.python},${python},processes=2,concurrency=1,retry-delay=1`,
    })
  }

  /** The daemon that is never killed. */
  get steady(): TestProcess {
    return this.#daemon('steady')
  }

  async start(name: Name): Promise<void> {
    const daemon = new TestProcess(process.execPath, [BIN, `${name}.ini`], { cwd: this.#directory })
    this.#daemons.set(name, daemon)
    await daemon.waitFor(/is running \(pid: \d+\)/)
  }

  /** Stores tasks, a few at a time, until the scene is over. A full disk refuses some. */
  produce(pauseMs: number): TestProcess {
    const kinds = KINDS.map(({ kind, ...rest }) => ({
      ...{ kind, ...rest },
      spooler: kind === 'snake' ? this.#spools.python : this.#spools.node,
    }))
    const settings = { journal: this.#journal, enough: this.#enough, kinds, user: USER, pauseMs }
    const args = ['--input-type=module', '-e', PRODUCER, JSON.stringify(settings)]
    return new TestProcess(process.execPath, args, { cwd: ROOT })
  }

  /** Does one of `ACTS`. */
  async act(): Promise<void> {
    const name = this.#random.weighed(ACTS)
    this.counts[name] = (this.counts[name] ?? 0) + 1
    await this[name]()
  }

  killWorker(): void {
    const pid = this.#random.pick(
      [...this.#daemons.values()].flatMap(daemon => daemon.children()).filter(isAlive),
    )
    if (pid !== undefined) this.#kill(pid)
  }

  /** Kills the daemon, whose workers end what they run. */
  async killDaemon(): Promise<void> {
    const other = this.#daemon('other')
    other.child.kill('SIGKILL')
    await until('the killed daemon is gone', () => !other.isRunning)
    await this.start('other')
  }

  async stopDaemon(): Promise<void> {
    await this.#stop('other')
    await this.start('other')
  }

  reload(): void {
    this.#daemon(this.#anyone()).child.kill('SIGHUP')
  }

  async freeze(): Promise<void> {
    const daemon = this.#daemon(this.#anyone())
    const pid = this.#random.pick([daemon.pid, ...daemon.children().filter(isAlive)])
    if (pid === undefined) return
    signal(pid, 'SIGSTOP')
    await sleep(this.#random.between(100, 1500))
    signal(pid, 'SIGCONT')
  }

  async pause(): Promise<void> {
    await this.#run('pause', this.#spools.node)
    const from = now() + OBEYED_WITHIN_MS * patience()
    await sleep(this.#random.between(1200, 2500) * patience())
    const to = now()
    await this.#run('resume', this.#spools.node)
    this.#pauses.push({ from, to })
  }

  /** Looks at a page of the dashboard, and kicks the tasks that wait for a retry. A dashboard that starts does not answer. */
  async click(): Promise<void> {
    try {
      this.#browser ??= await this.#logIn()
      const page = this.#random.pick([...PAGES, ...MORE_PAGES]) ?? ''
      const { status, text } = await this.#browser.get(`/spools/node${page}`)
      if (status === 303)
        this.#browser = undefined // the dashboard was started again, and knows no session
      else if (status === 503)
        this.counts.unanswered = (this.counts.unanswered ?? 0) + 1 // the daemon's deadline is real time
      else if (status !== 200) throw new Error(`${page} of the dashboard: ${status}\n${text}`)
      const [, csrf] = /name="csrf" value="([^"]+)"/.exec(text) ?? []
      if (this.#browser === undefined || csrf === undefined) return
      const form = { csrf, state: 'retrying', count: '50000' }
      const kicked = await this.#browser.post('/spools/node/bulk/kick', form)
      if (kicked.status !== 303) throw new Error(`a kick in the dashboard: ${kicked.status}\n${kicked.text}`)
    } catch (error) {
      if (!/ECONNREFUSED|ECONNRESET|socket hang up/.test(String(error))) throw error
      this.#browser = undefined
    }
  }

  async #logIn(): Promise<Browser> {
    const ports = [...this.steady.output.matchAll(/dashboard enabled on \S+:(\d+) /g)]
    const browser = new Browser({ port: Number(ports.at(-1)?.[1]) })
    await browser.logIn(this.#token.token)
    return browser
  }

  async scale(): Promise<void> {
    await this.#run('scale', this.#spools.node, this.#random.pick(['1', '4', 'auto', 'auto']) ?? 'auto')
  }

  async fill(): Promise<void> {
    const ballast = join(this.#disk, 'ballast')
    const piece = Buffer.alloc(2 ** 20)
    try {
      for (let i = 0; i <= DISK_MB; i++) appendFileSync(ballast, piece)
    } catch {} // the disk is full
    await sleep(this.#random.between(300, 1500))
    rmSync(ballast)
  }

  async look(): Promise<void> {
    const where = this.#random.pick(Object.values(this.#spools)) ?? ''
    await this.#run(...(this.#random.pick([['ls', '--limit', '5'], ['status'], ['shape']]) ?? ['ls']), where)
  }

  /** Waits until all tasks have ended, and stops the daemons. @returns the verdict */
  async settle(patienceMs: number): Promise<{ violations: string[]; summary: string }> {
    writeFileSync(this.#enough, '')
    const tail = new Tail(this.#journal)
    const evidence = async (): Promise<Evidence> => ({
      ...{ journal: tail.read(), acknowledged: acknowledgedIn(tail.lines), dead: await this.#dead() },
      ...{ pauses: this.#pauses, limit: LIMIT, tickMs: TICK_MS, maxCrashes: MAX_CRASHES },
    })
    const isSettled = async () => !judge(await evidence()).violations.some(each => UNSETTLED.test(each))
    const settled = await until('all tasks have ended', isSettled, patienceMs).then(() => '', String)
    for (const name of this.#daemons.keys()) await this.#stop(name)
    const { violations, summary } = judge(await evidence())
    if (settled !== '') violations.push(settled)
    const refused = tail.lines.filter(line => line === 'refused').length
    return { violations, summary: `${summary}, ${refused} refused by a full disk` }
  }

  async #dead(): Promise<Map<string, string>> {
    const letters = await Promise.all(Object.values(this.#spools).map(deadOf))
    return new Map(letters.flatMap(each => [...each].map(([n, { reason }]) => [n, reason] as const)))
  }

  async #stop(name: Name): Promise<void> {
    const daemon = this.#daemon(name)
    daemon.child.kill('SIGTERM')
    const code = await daemon.code(STOPPED_WITHIN_MS)
    if (code !== 0)
      throw new Error(`expected exit code 0 of a stop, got ${code}:\n${daemon.output.slice(-2000)}`)
  }

  /** Runs a command, which has to succeed. */
  async #run(...args: string[]): Promise<void> {
    const { code, stderr } = await spoold(args)
    if (code !== 0) throw new Error(`spoold ${args.join(' ')} exited with ${code}: ${stderr}`)
  }

  /**
   * Kills a process. The kill is in the journal for its children, too: an interpreter ends with its worker, which can no longer
   * settle what ran there.
   */
  #kill(pid: number): void {
    for (const each of [pid, ...childrenOf(pid)]) appendFileSync(this.#journal, `kill - - ${each} ${now()}\n`)
    signal(pid, 'SIGKILL')
  }

  #anyone(): Name {
    return this.#random.next() < 0.5 ? 'steady' : 'other'
  }

  #daemon(name: Name): TestProcess {
    const daemon = this.#daemons.get(name)
    if (daemon === undefined) throw new Error(`${name} was not started`)
    return daemon
  }
}

const ACTS = {
  ...{ killWorker: 30, killDaemon: 5, stopDaemon: 4, reload: 6, freeze: 8 },
  ...{ pause: 4, scale: 6, fill: 4, look: 6, click: 15 },
} as const

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {} // the process has ended meanwhile
}

/** Returns the kinds of the tasks that were acknowledged, by number. */
function acknowledgedIn(journal: readonly string[]): Map<string, string> {
  const acknowledgements = journal.filter(line => line.startsWith('ack ')).map(line => line.split(' '))
  return new Map(acknowledgements.map(([, kind = '', n = '']) => [n, kind]))
}
