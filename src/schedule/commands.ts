import { type ChildProcess, spawn } from 'node:child_process'
import type { Emitter } from '../events/emitter.js'
import { type CronCommand, scheduleKey } from '../task/schedule.js'

export interface CommandsOptions {
  readonly events: Emitter
  /** Where the output goes. */
  logFd(): number
}

/**
 * The commands of `cron` (core/cron.c, core/master_checks.c): each in a shell and a session of its own. As in uWSGI, they
 * go on when the daemon stops.
 */
export class Commands {
  readonly #options: CommandsOptions
  readonly #running = new Map<string, Set<ChildProcess>>()

  constructor(options: CommandsOptions) {
    this.#options = options
  }

  run(entry: CronCommand): void {
    const { command, isUnique, harakiriMs } = entry
    const { events, logFd } = this.#options
    const siblings = this.#running.get(scheduleKey(entry)) ?? new Set()
    if (isUnique && siblings.size > 0) return
    const startedAt = performance.now()
    const child = spawn('/bin/sh', ['-c', command], {
      detached: true,
      stdio: ['ignore', logFd(), logFd()],
    })
    child.once('error', error => events.emit('command-failed', { command, error: error.message }))
    const { pid } = child
    if (pid === undefined) return
    child.unref()
    this.#running.set(scheduleKey(entry), siblings.add(child))
    events.emit('command-started', { command, pid })
    const timer = harakiriMs === 0 ? undefined : setTimeout(() => this.#kill(command, pid), harakiriMs)
    child.once('exit', () => {
      clearTimeout(timer)
      siblings.delete(child)
      events.emit('command-ended', { command, pid, ranMs: performance.now() - startedAt })
    })
  }

  #kill(command: string, pid: number): void {
    this.#options.events.emit('command-overran', { command, pid })
    try {
      process.kill(-pid, 'SIGKILL')
    } catch {} // it ended just now
  }
}
