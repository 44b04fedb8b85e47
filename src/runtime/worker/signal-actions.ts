import { describe, SpooldError } from '../../base/errors.js'
import { MAX_SIGNAL, type SignalNews } from '../../base/task/schedule.js'
import { openCron } from '../schedule/cron.js'

/** The most bytes of a target's name: uWSGI's limit for every target (core/signal.c, uwsgi_register_signal). */
const MAX_NAME_BYTES = 63

/**
 * uWSGI's signal framework for code in a worker: JavaScript modules use it through the package, other languages through their
 * hosts. Each method may be called while handlers are loaded, and at any time after that. Every worker of a daemon loads the same
 * code and so requests the same schedules. Equal schedules count once.
 *
 * The handler functions are kept here. Everything else is reported to the master.
 *
 * @throws SpooldError SIGNAL_INVALID, SCHEDULE_INVALID from every method
 */
export class WorkerSignals {
  readonly #handlers = new Map<number, (number: number) => unknown>()
  readonly #tell: (news: SignalNews) => void

  /** @param tell reports to the master, in the order of the calls */
  constructor(tell: (news: SignalNews) => void) {
    this.#tell = tell
  }

  /**
   * Registers `run` to be called when this worker handles the signal; it may return a promise. A second registration
   * replaces the first one.
   *
   * @param target who handles the signal: '' or `spooler` one process, `workers` every process, an absolute spool directory …
   */
  register(number: number, target: string, run: (number: number) => unknown): void {
    checkNumber(number)
    if (typeof run !== 'function')
      throw invalid(`signal ${number}: expected a function, got ${describe(run)}`)
    if (typeof target !== 'string' || (!target.startsWith('/') && Buffer.byteLength(target) > MAX_NAME_BYTES))
      throw invalid(
        `signal ${number}: expected a directory or a name of at most ${MAX_NAME_BYTES} bytes, got ${describe(target)}`,
      )
    this.#handlers.set(number, run)
    this.#tell({ kind: 'handler', number, target })
  }

  /** True if a handler of the signal is registered in this worker. */
  isRegistered(number: number): boolean {
    return this.#handlers.has(number)
  }

  raise(number: number): void {
    checkNumber(number)
    this.#tell({ kind: 'raise', number })
  }

  /** Adds a timer. @param iterations 0: forever. If it is more than 0, `everyMs` may be 0, which means as soon as possible */
  addTimer(number: number, everyMs: number, iterations = 0): void {
    checkNumber(number)
    const isAtOnce = everyMs === 0 && iterations > 0
    if (!isAtOnce && !(Number.isFinite(everyMs) && everyMs > 0))
      throw invalid(`timer ${number}: expected more than 0 milliseconds, got ${describe(everyMs)}`)
    if (!Number.isInteger(iterations) || iterations < 0)
      throw invalid(
        `timer ${number}: expected a whole number of iterations from 0, got ${describe(iterations)}`,
      )
    this.#tell({ kind: 'timer', number, everyMs: isAtOnce ? 1 : everyMs, iterations })
  }

  /** Adds a cron schedule in uWSGI's numbers: -1 means any, -n every multiple of n. */
  addCron(number: number, minute: number, hour: number, day: number, month: number, weekday: number): void {
    const fields = [minute, hour, day, month, weekday]
    for (const field of fields)
      if (!Number.isInteger(field))
        throw invalid(`cron ${number}: expected five whole numbers, got ${describe(field)}`)
    this.addCronExpression(number, fields.join(' '), null)
  }

  /** Adds a cron schedule. @param zone null: the zone of the daemon */
  addCronExpression(number: number, expression: string, zone: string | null): void {
    checkNumber(number)
    openCron(expression, zone)
    this.#tell({ kind: 'cron', number, expression, zone })
  }

  addFileMonitor(number: number, path: string): void {
    checkNumber(number)
    if (typeof path !== 'string' || path === '' || path.includes('\0'))
      throw invalid(`file monitor ${number}: expected a path, got ${describe(path)}`)
    this.#tell({ kind: 'monitor', number, path })
  }

  /** Runs the handler of a signal. Throws, or rejects with, what the handler throws. */
  run(number: number): unknown {
    return this.#handlers.get(number)?.(number)
  }
}

function checkNumber(number: number): void {
  if (!Number.isInteger(number) || number < 0 || number > MAX_SIGNAL)
    throw invalid(`expected a signal number from 0 to ${MAX_SIGNAL}, got ${describe(number)}`)
}

function invalid(problem: string): SpooldError {
  return new SpooldError('SIGNAL_INVALID', problem)
}
