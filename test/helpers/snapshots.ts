import type { DaemonSnapshot, SpoolSnapshot, Totals } from '#src/runtime/stats/snapshot.js'
import { NO_TOTALS } from '#src/runtime/stats/spool-counters.js'

const RATE = { m1: 0, m5: 0, m15: 0 }
export const NO_TIMES = { count: 0, sumMicros: 0, p50Micros: 0, p95Micros: 0, p99Micros: 0, buckets: [] }

/** The figures that differ from those of an idle spool. */
export interface SpoolFigures {
  readonly directory?: string
  readonly tasks?: Partial<SpoolSnapshot['tasks']>
  readonly totals?: Partial<Totals>
  readonly rates?: Partial<SpoolSnapshot['rates']>
  readonly processes?: Partial<SpoolSnapshot['processes']>
  readonly dead?: Partial<SpoolSnapshot['dead']>
  readonly paused?: SpoolSnapshot['paused']
  readonly disk?: SpoolSnapshot['disk']
}

export function spoolSnapshot({ directory = '/spool', ...figures }: SpoolFigures = {}): SpoolSnapshot {
  return {
    directory,
    tasks: {
      due: 0,
      isWhole: true,
      running: 0,
      unseen: 0,
      unseenSinceMs: null,
      waiting: 0,
      later: 0,
      held: 0,
      unreadable: 0,
      parked: {},
      stored: 0,
      countedAtMs: null,
      priorities: [],
      prioritiesLeftOut: 0,
      oldestDueMs: null,
      nextDueMs: null,
      ...figures.tasks,
    },
    totals: { ...NO_TOTALS, ...figures.totals },
    rates: { done: RATE, failed: RATE, failedShare: null, ...figures.rates },
    times: { sinceMs: 0, ran: NO_TIMES, waited: NO_TIMES },
    named: [],
    processes: {
      wanted: 1,
      present: 1,
      delayed: 0,
      size: { algorithm: null, minimum: 1, maximum: 1, reason: null, isByHand: false },
      workers: [],
      ...figures.processes,
    },
    dead: { count: 0, isWhole: true, byReason: {}, oldestMs: null, newestMs: null, ...figures.dead },
    records: { count: 0, isWhole: true },
    paused: figures.paused ?? { pauses: [] },
    disk: figures.disk ?? null,
    look: null,
    leadership: null,
  }
}

export function daemonSnapshot(atMs: number, ...spools: readonly SpoolSnapshot[]): DaemonSnapshot {
  return {
    version: 1,
    atMs,
    daemon: {
      pid: 4711,
      version: '1.2.3',
      state: 'running',
      startedAtMs: 0,
      isQuiet: false,
      host: 'web1',
      uid: 1000,
      gid: 1000,
      directory: '/',
      files: ['app.ini'],
      rssBytes: 30_000_000,
      stored: 0,
      refused: 0,
    },
    spools,
    schedules: [],
    sockets: [],
  }
}
