import { SpooldError } from '../base/errors.js'
import type { SignalActions } from './signal-actions.js'

/**
 * A handler module may import another copy of this package than the one that the daemon runs: what belongs to the process
 * is found by a name that all copies know. Whoever changes the interface in an incompatible way changes the name.
 */
const ACTIONS = Symbol.for('spoold.signal-actions.1')

type Offered = typeof globalThis & { [ACTIONS]?: SignalActions }

/** To be called by a worker before it loads a handler. */
export function offerSignals(actions: SignalActions): void {
  const offered: Offered = globalThis
  offered[ACTIONS] = actions
}

/** What calls when a signal is due. It may be asynchronous; what it throws is logged. */
export type SignalHandler = (number: number) => unknown

/**
 * Registers the function that handles a signal, as `uwsgi.register_signal` does; a second one replaces the first. To be
 * called while the handler module is loaded, so that every process of the daemon knows it.
 *
 * @param number 0 to 255
 * @param target who runs it: `spooler` or '' one process of any spool, an absolute spool directory one process of that
 *   spool, `workers` every process, `worker1` the first process …
 * @throws SpooldError SIGNAL_INVALID; NOT_IN_A_WORKER in a program that no daemon has started
 */
export function registerSignal(number: number, target: string, handler: SignalHandler): void {
  actions().register(number, target, handler)
}

/** Whether a handler module of this process has registered the signal. */
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

/** The same in milliseconds. */
export function addMsTimer(number: number, milliseconds: number): void {
  actions().addTimer(number, milliseconds)
}

/** A timer that fires this many times; 0: forever. */
export function addRbTimer(number: number, seconds: number, iterations = 0): void {
  actions().addRbTimer(number, seconds * 1000, iterations)
}

/** uWSGI's five numbers: -1 is any, -5 what 5 divides, 0 or 7 is Sunday. */
export type CronNumbers = readonly [minute: number, hour: number, day: number, month: number, weekday: number]

/**
 * Raises the signal by the calendar: `addCron(1, 30, 3, -1, -1, -1)` as in uWSGI, or
 * `addCron(1, '30 3 * * mon-fri', { zone: 'Europe/Berlin' })`. Without a zone it is the daemon's.
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

/** Raises the signal when this file or directory changes; what lies deeper below a directory does not count. */
export function addFileMonitor(number: number, path: string): void {
  actions().addFileMonitor(number, path)
}

function actions(): SignalActions {
  const { [ACTIONS]: offered }: Offered = globalThis
  if (offered !== undefined) return offered
  throw new SpooldError(
    'NOT_IN_A_WORKER',
    'signals and schedules belong to a daemon: call this in a handler module (spooler-import); from other programs use sendSignal',
  )
}
