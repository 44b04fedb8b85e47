import { SpooldError } from '../../base/errors.js'
import type { WorkerSignals } from './signal-actions.js'

/**
 * The name under which all copies of this package find the object that belongs to the process, because a handler module may
 * import another copy than the daemon runs. Change the name with any incompatible change of the object's methods.
 */
const ACTIONS = Symbol.for('spoold.signal-actions.1')

type Offered = typeof globalThis & { [ACTIONS]?: WorkerSignals }

/** Makes the signal functions known in this process. A worker calls it before it loads a handler. */
export function offerSignals(actions: WorkerSignals): void {
  const offered: Offered = globalThis
  offered[ACTIONS] = actions
}

/** A function that handles a signal. It may be asynchronous; what it throws is logged. */
export type SignalHandler = (number: number) => unknown

/**
 * Registers the function that handles a signal, like `uwsgi.register_signal`. A second function replaces the first. Call it while
 * the handler module is loaded, so that every process of the daemon has the handler.
 *
 * @param number 0 to 255
 * @param target who runs the handler: `spooler` or '' one process of any spool, an absolute spool directory one process of that
 *   spool, `workers` every process, `worker1` the first process …
 * @throws SpooldError SIGNAL_INVALID; NOT_IN_A_WORKER in a program that was not started by a daemon
 */
export function registerSignal(number: number, target: string, handler: SignalHandler): void {
  actions().register(number, target, handler)
}

/** True if a handler module in this process has registered the signal. */
export function signalRegistered(number: number): boolean {
  return actions().isRegistered(number)
}

/** Raises a signal in the daemon that this handler module belongs to. */
export function signal(number: number): void {
  actions().raise(number)
}

/** Raises the signal at this interval, in seconds. */
export function addTimer(number: number, seconds: number): void {
  actions().addTimer(number, seconds * 1000)
}

/** Raises the signal at this interval, in milliseconds. */
export function addMsTimer(number: number, milliseconds: number): void {
  actions().addTimer(number, milliseconds)
}

/** Raises the signal at this interval, in seconds, this many times; 0: forever. */
export function addRbTimer(number: number, seconds: number, iterations = 0): void {
  actions().addTimer(number, seconds * 1000, iterations)
}

/** uWSGI's five numbers: -1 means any, -5 every multiple of 5; 0 and 7 are Sunday. */
export type CronNumbers = readonly [minute: number, hour: number, day: number, month: number, weekday: number]

/**
 * Raises the signal by the calendar: `addCron(1, 30, 3, -1, -1, -1)` as in uWSGI, or `addCron(1, '30 3 * * mon-fri',
 * { zone: 'Europe/Berlin' })`. The default zone is the daemon's.
 *
 * @throws SpooldError SIGNAL_INVALID, SCHEDULE_INVALID
 */
export function addCron(number: number, ...fields: CronNumbers): void
export function addCron(number: number, expression: string, options?: { readonly zone?: string }): void
export function addCron(number: number, ...when: readonly unknown[]): void {
  if (typeof when[0] === 'string') actions().addCronExpression(number, when[0], zoneOf(when[1]))
  else actions().addCron(number, ...(when as CronNumbers))
}

function zoneOf(options: unknown): string | null {
  const isGiven = typeof options === 'object' && options !== null && 'zone' in options
  return isGiven && options.zone !== undefined ? String(options.zone) : null
}

/** Raises the signal when this file or directory changes. Changes deeper below a directory do not count. */
export function addFileMonitor(number: number, path: string): void {
  actions().addFileMonitor(number, path)
}

function actions(): WorkerSignals {
  const { [ACTIONS]: offered }: Offered = globalThis
  if (offered !== undefined) return offered
  throw new SpooldError(
    'NOT_IN_A_WORKER',
    'signals and schedules belong to a daemon: call this in a handler module (spooler-import); from other programs use sendSignal',
  )
}
