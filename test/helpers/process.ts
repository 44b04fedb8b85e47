import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { after } from 'node:test'
import { until, witnesses } from './until.js'

const LAST_WORDS = 3000

/** A running program with its output so far. It is killed, by pid, when the test ends. */
export class TestProcess {
  readonly child: ChildProcess
  #output = ''
  readonly exited: Promise<{ code: number | null; signal: string | null }>

  constructor(
    command: string,
    args: readonly string[],
    options: { cwd?: string; env?: NodeJS.ProcessEnv; input?: string; isGroup?: boolean } = {},
  ) {
    this.child = spawn(command, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      // a pipe of Node's is a socket: uWSGI takes one on its input for one to serve, and waits in vain with a whole processor
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      detached: options.isGroup === true, // a process group of its own
    })
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.on('data', chunk => (this.#output += chunk))
    this.child.stdin?.on('error', () => {})
    this.child.stdin?.end(options.input)
    this.exited = new Promise((resolve, reject) => {
      this.child.once('error', reject)
      this.child.once('close', (code, signal) => resolve({ code, signal }))
    })
    this.exited.catch(() => {})
    const testify = () =>
      `--- ${command} ${args.join(' ')} (pid: ${this.pid}):\n${this.#output.slice(-LAST_WORDS)}`
    witnesses.add(testify)
    after(async () => {
      witnesses.delete(testify)
      const workers = this.children().flatMap(pid => [pid, ...childrenOf(pid)])
      if (this.isRunning) this.child.kill('SIGKILL')
      for (const pid of workers) killQuietly(pid) // workers hold the pipes of the program open
      // a process that a test has stopped, and that the daemon has let go of, holds them open, too
      if (options.isGroup === true && this.pid > 0) killQuietly(-this.pid)
      await this.exited.catch(() => {})
    })
  }

  get pid(): number {
    return this.child.pid ?? 0
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  /** Standard output and standard error, in order of arrival. */
  get output(): string {
    return this.#output
  }

  /** Returns the pids of a daemon's workers: its children without the process aside, which stays for a while after a look. */
  workers(): number[] {
    return this.children().filter(pid => !isAside(pid))
  }

  /** Returns the pids of a daemon's processes aside: at most one, unless one has just been killed. */
  asides(): number[] {
    return this.children().filter(isAside)
  }

  /** Returns the pids of the program's direct children. One that has ended, and was not waited for, is no longer one. */
  children(): number[] {
    return this.child.pid === undefined ? [] : childrenOf(this.child.pid).filter(isAlive) // pid 0 has others' children
  }

  async waitFor(pattern: RegExp | string, timeoutMs?: number): Promise<void> {
    await until(
      `the output has ${pattern}`,
      () => {
        if (typeof pattern === 'string' ? this.#output.includes(pattern) : pattern.test(this.#output))
          return true
        if (!this.isRunning)
          throw new Error(`the process has ended before its output had ${pattern}; it is:\n${this.#output}`)
        return false
      },
      timeoutMs,
    )
  }

  /** Waits until the program exits, and returns the exit code. Fails on timeout. */
  async code(timeoutMs = 60_000): Promise<number | null> {
    await until(`process ${this.pid} has ended`, () => !this.isRunning, timeoutMs)
    return (await this.exited).code
  }
}

function isAside(pid: number): boolean {
  return commandOf(pid).includes('aside.cjs')
}

/** Returns the command line of a process; '' if it has ended. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}

/** Returns the pids of a process's children. Each of its threads has its own; to look at all processes costs 200 times as much. */
export function childrenOf(pid: number): number[] {
  const threads = `/proc/${pid}/task`
  try {
    return readdirSync(threads).flatMap(thread => childrenIn(`${threads}/${thread}/children`))
  } catch {
    return [] // it has ended
  }
}

function childrenIn(file: string): number[] {
  try {
    return readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return [] // the thread has ended
  }
}

/** True if there is a process with this pid that is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

export function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {}
}
