import { spawn } from 'node:child_process'
import { isAlive } from '../process.js'
import { signalQuietly } from './kill.js'

/** Reads lists of pids; at the end of its input, kills the processes of the last list. */
const SCRIPT = 'while read -r line; do pids=$line; done; [ -z "$pids" ] || kill -9 $pids 2>/dev/null'

/** Kills processes that have detached from their parents, even if the test itself is killed. */
export class Warden {
  readonly #pids = new Set<number>()
  readonly #shell = spawn('sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })

  constructor() {
    this.#shell.unref()
    this.#shell.stdin.on('error', () => {})
  }

  watch(pids: readonly number[]): void {
    for (const pid of this.#pids) if (!isAlive(pid)) this.#pids.delete(pid)
    for (const pid of pids) this.#pids.add(pid)
    this.#shell.stdin.write(`${[...this.#pids].join(' ')}\n`)
  }

  end(): void {
    for (const pid of this.#pids) signalQuietly(pid, 'SIGKILL')
    this.#shell.stdin.end('\n')
  }
}
