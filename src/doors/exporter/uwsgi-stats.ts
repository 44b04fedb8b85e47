import { printableJson } from '../../base/printable.js'
import type { CronCommand } from '../../base/task/schedule.js'
import type { DaemonSnapshot, SpoolSnapshot, WorkerSnapshot } from '../../runtime/stats/snapshot.js'

/** The place of one process among those of its spool. */
interface Seat {
  readonly spool: SpoolSnapshot
  /** Null: there should be a process, and there is none. */
  readonly worker: WorkerSnapshot | null
  /** Runs, errors, deadlines overrun and spawns of processes that are gone. The first seat has them, so that sums are right. */
  readonly past: Past
}

interface Past {
  readonly runs: number
  readonly errors: number
  readonly overran: number
  readonly respawns: number
}

const NO_PAST: Past = { runs: 0, errors: 0, overran: 0, respawns: 0 }

/**
 * Returns the document of uWSGI's stats server (core/master_utils.c, uwsgi_master_generate_stats), so that its tools show spoold.
 * Our worker processes are in `spoolers`, as uWSGI's spoolers are, and also in `workers`, where those tools look. What uWSGI does
 * not know is under `spoold`: the snapshot itself.
 */
export function uwsgiStats(snapshot: DaemonSnapshot, withCores: boolean) {
  const { daemon, spools, schedules, sockets } = snapshot
  const seats = spools.flatMap(seatsOf)
  const crons = schedules.flatMap(({ schedule }) => (schedule.kind === 'command' ? [schedule] : []))
  return {
    version: daemon.version,
    listen_queue: sum(spools.map(({ tasks }) => tasks.due + tasks.unseen)),
    listen_queue_errors: daemon.refused,
    signal_queue: sum(seats.map(({ worker }) => worker?.signals.length ?? 0)),
    load: sum(seats.map(({ worker }) => worker?.running.length ?? 0)),
    pid: daemon.pid,
    uid: daemon.uid,
    gid: daemon.gid,
    cwd: daemon.directory,
    locks: [],
    sockets: sockets.map(({ address, backlog }) => ({
      name: address,
      proto: 'uwsgi',
      queue: 0,
      max_queue: backlog,
      shared: 0,
      can_offload: 0,
    })),
    workers: seats.map((seat, i) => workerOf(seat, i + 1, withCores)),
    spoolers: seats.map(spoolerOf),
    ...(crons.length === 0 ? {} : { crons: crons.map(cronOf) }),
    spoold: snapshot,
  }
}

export type UwsgiStats = ReturnType<typeof uwsgiStats>

/** Prints JSON as uWSGI does: tabs, and no space after a colon (core/stats.c). Node indents empty lists less. */
export function printed(document: object, isMinified: boolean): string {
  if (isMinified) return printableJson(JSON.stringify(document))
  return printableJson(JSON.stringify(document, null, '\t')).replace(/^(\t+"(?:[^"\\]|\\.)*":) /gm, '$1')
}

function seatsOf(spool: SpoolSnapshot): Seat[] {
  const { workers, wanted } = spool.processes
  const missing = Math.max(0, wanted - workers.length)
  const seats = [...workers, ...Array.from({ length: missing }, () => null)]
  return seats.map((worker, i) => ({ spool, worker, past: i === 0 ? pastOf(spool) : NO_PAST }))
}

function pastOf({ totals, processes }: SpoolSnapshot): Past {
  const { done, retried, errors, ignored, buried, unsettled } = totals
  const runs = done + retried + errors + ignored + buried + unsettled
  return {
    runs: Math.max(0, runs - sum(processes.workers.map(({ ran }) => ran))),
    errors,
    overran: totals.overran,
    respawns: Math.max(0, totals.spawned - processes.workers.length),
  }
}

function workerOf({ worker, past }: Seat, id: number, withCores: boolean) {
  const requests = (worker?.ran ?? 0) + past.runs
  const cores = Array.from({ length: worker?.concurrency ?? 1 }, (_, core) => coreOf(worker, core, requests))
  return {
    id,
    pid: worker?.pid ?? 0,
    accepting: worker?.state === 'ready' ? 1 : 0,
    requests,
    delta_requests: worker?.ran ?? 0,
    exceptions: past.errors,
    harakiri_count: past.overran,
    signals: worker?.signals.length ?? 0,
    signal_queue: 0,
    status: statusOf(worker),
    rss: worker?.rssBytes ?? 0,
    vsz: worker?.vszBytes ?? 0,
    running_time: micros(worker?.busyMs ?? 0),
    last_spawn: Math.floor((worker?.spawnedAtMs ?? 0) / 1000),
    respawn_count: (worker === null ? 0 : 1) + past.respawns,
    tx: 0,
    avg_rt: micros(worker?.paceMs ?? 0),
    apps: [],
    ...(withCores ? { cores } : {}),
  }
}

/**
 * Returns a core, which is one of the tasks that a worker can run at a time. It tells no variables, and nothing of what the task
 * is about.
 */
function coreOf(worker: WorkerSnapshot | null, id: number, requests: number): object {
  return {
    id,
    requests: id === 0 ? requests : 0,
    static_requests: 0,
    routed_requests: 0,
    offloaded_requests: 0,
    write_errors: 0,
    read_errors: 0,
    in_request: id < (worker?.running.length ?? 0) ? 1 : 0,
    vars: [],
    req_info: {},
  }
}

/** Returns uWSGI's word: sigN while a signal's handler runs, busy, idle; cheap: there is no process. */
function statusOf(worker: WorkerSnapshot | null): string {
  if (worker === null) return 'cheap'
  const [signal] = worker.signals
  if (signal !== undefined) return `sig${signal}`
  return worker.running.length > 0 ? 'busy' : 'idle'
}

function spoolerOf({ spool, worker, past }: Seat) {
  return {
    dir: spool.directory,
    pid: worker?.pid ?? 0,
    tasks: (worker?.ran ?? 0) + past.runs,
    respawns: past.respawns,
    running: (worker?.running.length ?? 0) > 0 ? 1 : 0,
  }
}

/** Returns a cron entry. A field that is not one of uWSGI's numbers is left as it was written. */
function cronOf({ expression, command, isUnique }: CronCommand): object {
  const [minute, hour, day, month, week] = expression.trim().split(/\s+/).map(asNumber)
  return { minute, hour, day, month, week, command, unique: isUnique ? 1 : 0, legion: '' }
}

function asNumber(field: string): number | string {
  if (field === '*') return -1
  return /^-?[0-9]+$/.test(field) ? Number(field) : field
}

function micros(ms: number): number {
  return Math.round(ms * 1000)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
