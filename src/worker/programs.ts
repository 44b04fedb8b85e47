import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { entryFile } from '../base/package-root.js'

/**
 * The watcher: reads which groups of processes there are, and kills them when nobody can write to it any more, which is
 * when the worker is dead. Nothing but what every sh has built in.
 */
const WATCHER = `while read -r verb group; do
  case $verb in
    start) set -- "$@" "$group" ;;
    end) kept=; for each do [ "$each" = "$group" ] || kept="$kept $each"; done; set -- $kept ;;
  esac
done
for each do kill -KILL "-$each"; done`
const SH = ['/bin/sh', '-c', WATCHER, 'spoold: watches programs'] as const
/** Of leases: sh cannot read with a deadline. */
const NODE = [process.execPath, entryFile('program-watcher')] as const
const ALIVE_EVERY_MS = 5000

/**
 * The programs that this worker runs for its tasks, each the head of a group of its own. They end with the worker,
 * however that ends: a process beside it watches, because one that is killed kills nobody, and its master may be dead too.
 */
export class Programs {
  readonly #groups = new Set<number>()
  readonly #hasLeases: boolean
  #watcher: ChildProcess | undefined

  /** @param hasLeases a worker that is stopped loses its tasks: its programs end, too */
  constructor(hasLeases: boolean) {
    this.#hasLeases = hasLeases
    if (hasLeases) setInterval(() => this.#sayAlive(), ALIVE_EVERY_MS).unref()
  }

  /** Resolves when the program will not outlive this process. @param group the pid of its head */
  async started(group: number): Promise<void> {
    this.#groups.add(group)
    await this.#tell(`start ${group}\n`)
  }

  /** The head of the group has ended: so does the rest. */
  ended(group: number): void {
    this.#groups.delete(group)
    kill(group)
    this.#tell(`end ${group}\n`).catch(() => {}) // then nobody watches
  }

  /** What runs is given up. */
  killAll(): void {
    for (const group of this.#groups) kill(group)
  }

  /** The worker leaves in good order, and so does who watches it. */
  async end(): Promise<void> {
    const watcher = this.#watcher
    if (watcher === undefined || watcher.exitCode !== null || watcher.signalCode !== null) return
    watcher.stdin?.end()
    await once(watcher, 'exit')
  }

  #sayAlive(): void {
    if (this.#groups.size > 0) this.#tell('alive 0\n').catch(() => {})
  }

  #tell(line: string): Promise<void> {
    const { stdin } = this.#watcher ?? this.#watch()
    return new Promise((resolve, reject) => {
      if (stdin === null) return reject(new Error('sh cannot be run'))
      stdin.write(line, error => (error ? reject(error) : resolve()))
    })
  }

  #watch(): ChildProcess {
    const [command, ...args] = this.#hasLeases ? NODE : SH
    const watcher = spawn(command, args, {
      cwd: '/',
      env: {},
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true, // what ends the worker's group must not end it first
    })
    const forget = () => {
      if (this.#watcher === watcher) this.#watcher = undefined
    }
    watcher.once('exit', forget)
    watcher.once('error', forget)
    watcher.stdin?.on('error', forget)
    watcher.unref()
    this.#watcher = watcher
    const known = [...this.#groups].map(group => `start ${group}\n`).join('')
    watcher.stdin?.write(known)
    return watcher
  }
}

function kill(group: number): void {
  try {
    process.kill(-group, 'SIGKILL')
  } catch {} // nobody is left in it
}
