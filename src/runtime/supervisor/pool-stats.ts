import { epochMs } from '../../base/clock.js'
import type { Ref } from '../../base/task/ref.js'
import type { Roster } from './roster.js'
import type { WorkerProcess } from './worker-process.js'

/** A process that runs tasks. */
export interface WorkerStats {
  /** 0: it has no process of its own. */
  readonly pid: number
  readonly state: WorkerProcess['state']
  /** It runs one task at a time, of those that must run alone. */
  readonly isLone: boolean
  /** How many tasks it runs at a time. */
  readonly concurrency: number
  /** Epoch ms. */
  readonly spawnedAtMs: number
  /** How many runs it has reported. */
  readonly ran: number
  /** How long it was busy with them. */
  readonly busyMs: number
  /** Milliseconds per task of late; null: none has run. */
  readonly paceMs: number | null
  /** How many tasks and signals it has: they run, or wait in it. */
  readonly outstanding: number
  /** The tasks that may have begun, and the latest time at which each can have; epoch ms. */
  readonly running: ReadonlyArray<{ readonly ref: Ref; readonly sinceMs: number }>
  /** The signals whose handlers run. */
  readonly signals: readonly number[]
}

/** What says how many workers there should be. */
export interface PoolSizeStats {
  /** Null: there are always as many as configured. */
  readonly algorithm: string | null
  readonly minimum: number
  readonly maximum: number
  /** Why there should be as many as there should; null: nothing has changed that yet. */
  readonly reason: string | null
  /** Set by hand, until it is left to the algorithm again. */
  readonly isByHand: boolean
}

/** The processes of a spool. */
export interface PoolStats {
  /** How many there should be, and how many are not draining. The lone worker counts in neither. */
  readonly wanted: number
  readonly present: number
  /** How many are spawned later, because others failed. */
  readonly delayed: number
  readonly size: PoolSizeStats
  readonly workers: readonly WorkerStats[]
}

export function poolStats(main: Roster, lone: Roster, size: PoolSizeStats): PoolStats {
  return {
    size,
    wanted: main.target,
    present: main.present,
    delayed: main.delayed + lone.delayed,
    workers: [
      ...Array.from(main.workers, worker => workerStats(worker, false)),
      ...Array.from(lone.workers, worker => workerStats(worker, true)),
    ],
  }
}

function workerStats(worker: WorkerProcess, isLone: boolean): WorkerStats {
  const { pid, state, spawnedAt, work } = worker
  const { concurrency, pace, outstanding, tasks, signals } = work
  return {
    pid,
    state,
    isLone,
    concurrency,
    spawnedAtMs: epochMs(spawnedAt),
    ran: pace.ran,
    busyMs: pace.busyMs,
    paceMs: pace.ms ?? null,
    outstanding,
    running: tasks.begun.map(({ name, startedAt }) => ({ ref: name, sinceMs: epochMs(startedAt) })),
    signals: signals.running,
  }
}
