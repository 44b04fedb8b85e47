import type { Snapshot } from './algorithm.js'
import type { ScalingOptions } from './scaling-options.js'

export const SECOND = 1_000_000

export interface BusynessState {
  /** When the current window began. */
  readonly checkedAt: number
  /** From when on a worker may be stopped. */
  readonly nextCheap: number
  readonly lastCheaped: number | undefined
  readonly multiplier: number
  readonly lastAction: 'spawn' | 'cheap' | undefined
  /** Windows in a row between `min` and `max`. */
  readonly tolerance: number
  readonly emergencyWorkers: number
  readonly nonzeroSince: number | undefined
  /** By the number of the worker: at how many ticks of the window it was busy. */
  readonly busyTicks: ReadonlyMap<number, number>
  /** By the number of the worker: how long it had run at the last tick, and when the window began. */
  readonly ran: ReadonlyMap<number, number>
  readonly ranBefore: ReadonlyMap<number, number>
}

export function opening({ openedMicros, options }: Snapshot): BusynessState {
  const { multiplier } = options.busyness
  return {
    checkedAt: openedMicros,
    nextCheap: openedMicros + options.overload * multiplier * SECOND,
    lastCheaped: undefined,
    multiplier,
    lastAction: undefined,
    tolerance: 0,
    emergencyWorkers: 0,
    nonzeroSince: undefined,
    busyTicks: new Map(),
    ran: new Map(),
    ranBefore: new Map(),
  }
}

export function busynessSettings({ overload, busyness }: ScalingOptions): string[] {
  const { min, max, multiplier, penalty, backlogAlert, backlogStep, backlogNonzero } = busyness
  return [
    `[busyness] settings: min=${min}%, max=${max}%, overload=${overload}, multiplier=${multiplier}, respawn penalty=${penalty}`,
    `[busyness] backlog alert is set to ${backlogAlert} request(s), step is ${backlogStep}`,
    `[busyness] backlog non-zero alert is set to ${backlogNonzero} second(s)`,
  ]
}
