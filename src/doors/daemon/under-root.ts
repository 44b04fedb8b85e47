import { SpooldError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { PidfileKind } from '../../base/events/event-map.js'
import type { Log } from '../../base/log/log.js'
import type { Answer, Ask } from './root-parent.js'

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
    process.once('disconnect', () => process.kill(process.pid, 'SIGTERM')) // nothing holds the pidfiles then
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

  /** The parent releases them. */
  release(): void {}
}

/** The parent owns the log file, so reopening is its job. */
export function withParentsLog(log: Log): Log {
  return Object.create(log, { reopen: { value: () => tellParent({ ask: 'reopen-log' }) } }) as Log
}

export function tellParent(ask: Ask): void {
  if (process.connected) process.send?.(ask)
}
