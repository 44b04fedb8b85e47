import { readdirSync, readFileSync } from 'node:fs'
import { quietly, SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { PidfileKind } from '../../base/events/event-map.js'
import type { Log } from '../../base/log/log.js'
import { libc } from '../../system/libc.js'
import type { Answer, Ask } from './root-parent.js'

/** The sockets passed by systemd (sd_listen_fds(3)). The variables are removed so that no child claims the sockets. */
export function takeInheritedSockets(): number[] {
  const { LISTEN_PID, LISTEN_FDS } = process.env
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete process.env[name]
  const count = Number(LISTEN_FDS)
  if (Number(LISTEN_PID) !== process.pid || !Number.isInteger(count) || count <= 0) return []
  return Array.from({ length: Math.min(count, 1024) }, (_, i) => 3 + i)
}

/**
 * Keeps descriptors that a shell, a wrapper or cron left open from the processes that this one starts. None is closed, so that a
 * lock that `flock` holds for us stays. (Node marks the lowest descriptors, up to the first gap above 15.)
 *
 * @returns the descriptors that other processes get nevertheless, and why; normally none
 */
export function passNothingOn(): { readonly left: readonly number[]; readonly because?: unknown } {
  const all = quietly(() => readdirSync('/proc/self/fd').map(Number), []) // unknown on other systems than Linux
  const left = all.filter(fd => fd > 2 && isPassedOn(fd))
  if (left.length === 0) return { left }
  try {
    libc().keepFromChildren(3)
    return { left: [] }
  } catch (because) {
    return { left, because }
  }
}

const O_CLOEXEC = 0o2000000

/** @returns false for the descriptor of the listing itself, which is closed by now */
function isPassedOn(fd: number): boolean {
  const info = quietly(() => readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'), '')
  const [, flags = ''] = /^flags:\s*([0-7]+)/m.exec(info) ?? []
  return flags !== '' && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
}

/** The first descriptor after standard input, output, error and the IPC channel. */
const FIRST_SOCKET = 4

/** The descriptors of the sockets that the parent process passed on. */
export function socketsOfParent(count: number): number[] {
  return Array.from({ length: count }, (_, i) => FIRST_SOCKET + i)
}

/** The daemon's side of its root parent (root-parent.ts): requests the pidfiles, which the parent holds. */
export class ParentsPidfiles {
  readonly #events: Emitter

  constructor(events: Emitter) {
    this.#events = events
    process.once('disconnect', () => process.kill(process.pid, 'SIGTERM')) // the pidfiles are then held by nobody
  }

  /** @throws SpooldError PIDFILE_HELD, START_FAILED */
  async acquire(kind: PidfileKind, file: string): Promise<void> {
    const answer = new Promise<Answer>(resolve => process.once('message', resolve))
    tellParent({ ask: kind })
    const { warnings, refused } = await answer
    for (const message of warnings) this.#events.emit('config-warning', { message })
    if (refused !== undefined) throw new SpooldError(refused.code, refused.message)
    if (warnings.length === 0) this.#events.emit('pidfile-written', { file })
  }

  /** Does nothing: the parent releases the pidfiles. */
  release(): void {}
}

/** The parent owns the log file, so reopening is its job. */
export function withParentsLog(log: Log): Log {
  return Object.create(log, { reopen: { value: () => tellParent({ ask: 'reopen-log' }) } }) as Log
}

export function tellParent(ask: Ask): void {
  if (process.connected) process.send?.(ask)
}
