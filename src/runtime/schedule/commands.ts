import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { toError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { type CronCommand, type LoadedProcess, scheduleKey } from '../../base/task/schedule.js'

interface CommandsOptions {
  readonly events: Emitter
  /** Returns the descriptor that receives the output of the commands. */
  logFd(): number
  /** Returns the directory, umask and variables that a command gets in place of those of this process. */
  surroundings(): LoadedProcess
}

/**
 * Runs the commands of `cron` (core/cron.c, core/master_checks.c), each in a shell and session of its own. As in uWSGI, they
 * continue when the daemon stops.
 */
export class Commands {
  readonly #options: CommandsOptions
  readonly #running = new Map<string, Set<ChildProcess>>()

  constructor(options: CommandsOptions) {
    this.#options = options
  }

  /** Starts a command. @returns why it was not started, for people; undefined: it was started */
  run(entry: CronCommand): string | undefined {
    const { command, isUnique, harakiriMs } = entry
    const { events } = this.#options
    const siblings = this.#running.get(scheduleKey(entry)) ?? new Set()
    if (isUnique && siblings.size > 0) return 'its last run has not ended, and it is unique'
    const startedAt = performance.now()
    const child = this.#spawn(command)
    const pid = child?.pid
    if (child === undefined || pid === undefined) return 'it cannot be started: the log says why'
    child.unref()
    this.#running.set(scheduleKey(entry), siblings.add(child))
    events.emit('command-started', { command, pid })
    const timer = harakiriMs === 0 ? undefined : setTimeout(() => this.#kill(command, pid), harakiriMs)
    child.once('exit', () => {
      clearTimeout(timer)
      siblings.delete(child)
      events.emit('command-ended', { command, pid, ranMs: performance.now() - startedAt })
    })
    return undefined
  }

  /** Returns undefined if Node throws, as it does if there is no memory for a process. Node emits other failures as an event. */
  #spawn(command: string): ChildProcess | undefined {
    const { events, logFd, surroundings } = this.#options
    const failed = (error: unknown) =>
      events.emit('command-failed', { command, error: toError(error).message })
    try {
      const { directory, umask, environment } = surroundings()
      const env = { ...process.env }
      for (const [name, value] of environment)
        if (value === null) delete env[name]
        else env[name] = value
      const stdio: StdioOptions = ['ignore', logFd(), logFd()]
      const cwd = directory === null ? {} : { cwd: directory }
      const own = umask === null ? undefined : process.umask(umask) // spawn forks before it returns
      try {
        return spawn('/bin/sh', ['-c', command], { detached: true, stdio, env, ...cwd }).once('error', failed)
      } finally {
        if (own !== undefined) process.umask(own)
      }
    } catch (error) {
      failed(error)
      return undefined
    }
  }

  #kill(command: string, pid: number): void {
    this.#options.events.emit('command-overran', { command, pid })
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {} // the command has just ended
  }
}
