import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { entryFile } from '../../base/package-root.js'

/**
 * The script of the watcher. It reads a list of process groups from standard input, and kills them at the end of the input, which
 * means that the worker is dead. It uses only what is built into every sh.
 */
const WATCHER = `while read -r verb group; do
  case $verb in
    start) set -- "$@" "$group" ;;
    end) kept=; for each do [ "$each" = "$group" ] || kept="$kept $each"; done; set -- $kept ;;
  esac
done
for each do kill -KILL "-$each"; done`
const SH = ['/bin/sh', '-c', WATCHER, 'spoold: watches programs'] as const
/** The command of the watcher for claims that are leases. It needs a timeout, which sh's `read` does not have. */
const NODE = [process.execPath, entryFile('program-watcher')] as const
const ALIVE_EVERY_MS = 5000

/**
 * The programs that this worker runs for its tasks, each the leader of its own process group. They end with the worker, however
 * that ends. A separate process, the watcher, ensures this, because a worker that is killed cannot kill them, and its master may
 * be dead too.
 */
export class Programs {
  readonly #groups = new Set<number>()
  readonly #hasLeases: boolean
  #watcher: ChildProcess | undefined

  /** @param hasLeases true if claims are leases: a stalled worker loses its tasks then, so its programs have to be killed too */
  constructor(hasLeases: boolean) {
    this.#hasLeases = hasLeases
    if (hasLeases) setInterval(() => this.#sayAlive(), ALIVE_EVERY_MS).unref()
  }

  /** Resolves when it is certain that a program will not outlive this process. @param group the pid of the program */
  async started(group: number): Promise<void> {
    this.#groups.add(group)
    await this.#tell(`start ${group}\n`)
  }

  /** Kills the rest of a group whose leader has ended. */
  ended(group: number): void {
    this.#groups.delete(group)
    signalGroup(group, 'SIGKILL')
    this.#tell(`end ${group}\n`).catch(() => {}) // there is no watcher any more
  }

  /** Kills all programs, because their tasks are given up. */
  killAll(): void {
    for (const group of this.#groups) signalGroup(group, 'SIGKILL')
  }

  /** Ends the watcher. Call it when the worker exits in good order. */
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
      detached: true, // killing the worker's process group must not kill the watcher first
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

/** Sends a signal to a process group. @returns false if the group is empty */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, signal)
  } catch {
    return false
  }
}
