import type { Pauses } from '../task/pause.js'
import type { Ref, TaskName } from '../task/ref.js'
import type { NamedRuns, Report } from '../task/report.js'
import type { PeriodicTask, Schedule, SignalSchedule } from '../task/schedule.js'

export type PidfileKind = 'pidfile' | 'safe pidfile'

/** A supplementary group; `name` if the system knows it. */
export interface AdditionalGroup {
  readonly gid: number
  readonly name: string | null
}

/** All events with their payloads. Names are facts, past or present, never commands. Tasks go by their names. */
export interface EventMap {
  'config-read': { file: string }
  'config-warning': { message: string }
  'master-spawned': { pid: number }
  'identity-taken': { uid: number; gid: number; groups: readonly AdditionalGroup[] }
  'directory-entered': { directory: string }
  'daemon-started': { pid: number; version: string }
  /** `die-on-idle`: it stops. */
  'daemon-idle': { idleMs: number }
  'start-failed': { error: string }
  /** A message to the service manager. */
  'notification-failed': { error: string }
  'spool-opened': { spool: string; locks: 'ofd' | 'lockfile' | 'redis'; because?: string }

  'worker-spawned': { spool: string; pid: number }
  /** `running`: the runs that had started. `isReplaced`: another one takes its place. */
  'worker-died': {
    spool: string
    pid: number
    code: number | null
    signal: string | null
    running: readonly TaskName[]
    isReplaced: boolean
  }
  /** A process could not be forked. */
  'worker-fork-failed': { spool: string; error: string }
  'worker-loading': { spool: string; pid: number; what: string; afterMs: number }
  'worker-respawn-delayed': { spool: string; delayMs: number }
  'worker-unloadable': { spool: string; error: string }
  /** So many workers of before a reload stay, because none of after it can start in their place. */
  'workers-kept': { spool: string; kept: number; error: string }
  'worker-recycling': { spool: string; pid: number; because: RecycleReason }
  /** It is about to be killed: it has more memory than `evil-reload-on-…` allows. `number`: its place in the pool, from 1. */
  'worker-overweight': { spool: string; pid: number; number: number; kind: 'rss' | 'as'; bytes: number }
  /** It is replaced, because it is older than `max-worker-lifetime`. */
  'worker-outlived': { spool: string; pid: number; number: number; livedMs: number }
  'worker-faulted': { spool: string; pid: number; error: string; running: readonly TaskName[] }
  'worker-unfit': { spool: string; pid: number; error: string; running: readonly TaskName[] }
  /** It is about to be killed. */
  'worker-overran': { spool: string; pid: number }
  /** Of a process that was killed for it, and has ended. `isOwn`: a deadline that the task had set itself */
  'tasks-overran': { spool: string; pid: number; names: readonly TaskName[]; isOwn: boolean }
  /** It is killed, because these, which were cancelled, do not end; nothing else runs in it. */
  'worker-cancelled': { spool: string; pid: number; names: readonly TaskName[] }
  'worker-out-of-mercy': { spool: string; pid: number; running: readonly TaskName[] }
  /** Runs that a stop interrupted and that will count as crashes. */
  'marks-left': { spool: string; names: readonly TaskName[]; error: string }
  'worker-stopping': { spool: string; pid: number }
  'worker-stopped': { spool: string; pid: number }
  /** An interpreter of a worker died; another one is being started. */
  'host-died': { spool: string; pid: number; detail: string }
  /** There are to be fewer. `idleMs`: null if it still loaded. */
  'worker-cheaped': { spool: string; pid: number; idleMs: number | null }
  'spool-went-cheap': { spool: string }
  /** There are to be so many processes now. `algorithm`: null if the number is fixed. */
  'pool-scaled': { spool: string; algorithm: string | null; from: number; to: number; reason: string }
  /** What an algorithm says, as uWSGI writes it. */
  'scaling-logged': { spool: string; line: string }
  /** All processes together have too much memory: one of so many is to go. */
  'scaling-memory-short': { workers: number }
  /** An algorithm failed; the pool is held as it is. */
  'scaling-failed': { spool: string; error: string }

  'task-started': { spool: string; pid: number; name: TaskName }
  /**
   * `done`: ran to SPOOL_OK, without details unless there are listeners for single tasks; `reports`: all others. `known`:
   * the tasks for which 'task-started' was emitted. `ids`: of named tasks that ran to SPOOL_OK, by name.
   */
  'tasks-reported': {
    spool: string
    pid: number
    done: readonly TaskName[]
    reports: readonly Report[]
    known: ReadonlySet<TaskName>
    ids?: ReadonlyMap<TaskName, string>
  }
  /**
   * Of the runs that a worker has reported: histograms (task/histogram), packed, of how long they took and how long their
   * tasks had waited, in microseconds.
   */
  'run-times': { spool: string; ran: readonly number[]; waited: readonly number[] }
  /** What a worker did with named tasks since it said so last. */
  'named-runs': { spool: string; pid: number; runs: readonly NamedRuns[] }
  /** People cancelled it, and its worker is told. */
  'task-cancelling': { spool: string; pid: number; name: TaskName }
  'task-logged': { spool: string; pid: number; name: string; message: string; stream?: Stream }
  /** In pieces that may end within a line. `name`: of the task that printed it; null if unknown. */
  'task-printed': {
    spool: string
    pid: number
    name: TaskName | null
    stream: Stream
    text: string
    /** Other tasks run in the same process. */
    isBeside: boolean
  }

  'signal-registered': { spool: string; number: number; target: string }
  /** Its handler threw, or its process died. */
  'signal-failed': { spool: string; pid: number; number: number; error: string }
  'signal-unhandled': { number: number }
  'signal-unroutable': { target: string; because: 'unsupported' | 'invalid' }
  'signals-full': { number: number; limit: number }

  'schedule-fired': SignalSchedule
  /** A person has it run, paused, resumed or removed. */
  'schedule-changed': { spool: string; schedule: Schedule | PeriodicTask; verb: string; done: string }
  'schedules-full': { kind: Schedule['kind']; limit: number }
  'schedule-watch-failed': { path: string; error: string }
  /** What names no zone counts in this one from now on. `why`: what says so, for people. */
  'schedules-zoned': { zone: string; why: string }
  /** If several daemons share a spool, one of them fires the schedules. */
  'schedules-led': { spool: string; isLeading: boolean }
  'schedule-lease-failed': { spool: string; error: string }
  'command-started': { command: string; pid: number }
  'command-ended': { command: string; pid: number; ranMs: number }
  'command-overran': { command: string; pid: number }
  'command-failed': { command: string; error: string }

  /** A periodic task is due, but its last run is still in the spool. Once for each run. */
  'periodic-left-out': { spool: string; name: string; stored: string }
  /** What was remembered of a periodic task was no entry of ours. */
  'periodic-damaged': { spool: string; name: string }
  'periodic-failed': { spool: string; error: string }
  /** No spool is known for its queue. */
  'periodic-unplaced': { name: string; queue: string }

  /** What is paused has changed; something is. */
  'pauses-changed': { spool: string; pauses: Pauses }
  /** Nothing is paused any more. */
  'pauses-ended': { spool: string }

  'spool-missing': { spool: string; error: string }
  'spool-back': { spool: string }
  /** Of a spool on Redis: nothing of it is known until it is reached again. */
  'spool-unreachable': { spool: string; error: string }
  'spool-reached': { spool: string }
  /** No progress for half of the time of the service manager's watchdog, which is not fed from now on. */
  'spool-stalled': { spool: string; what: 'scan' | 'dispatch' }
  'spool-resumed': { spool: string; what: 'scan' | 'dispatch' }
  'spool-list-failed': { spool: string; prefix: string; error: string }
  'spool-list-back': { spool: string; prefix: string }
  'spool-unvisited': { spool: string; prefix: string }
  /** Somebody has stored tasks in a directory whose name is no priority, as a running uWSGI does for `priority = urgent`. */
  'spool-astray': { spool: string; prefix: string }
  /** No worker of ours runs it. Without a pid, its holder is not visible to us. */
  'spool-task-locked': { spool: string; name: string; forMs: number; pid?: number; command?: string }
  /**
   * Hidden files of dead writers were removed; tasks that such a writer had promised under an id were published; and files
   * that had replaced a task during its removal were moved back.
   */
  'spool-swept': { spool: string; removed: number; published: number; givenBack: number; forgotten: number }
  'spool-purged': { spool: string; removed: number }
  'spool-cleanup-failed': { spool: string; error: string }
  /** `prefix`: the directory in the spool; '' is the spool itself. */
  'watch-lost': { spool: string; prefix: string; error: string; frequencyMs: number }
  'watch-back': { spool: string }

  'socket-opened': {
    number: number
    how: 'bound' | 'inherited'
    family: string
    address: string
    isAutoPort: boolean
  }
  'request-stored': { path: string; bytes: number }
  'socket-left': { file: string; error: string }
  'socket-removed': { file: string }
  'request-refused': { peer: string; error: string }
  'modifier-unavailable': { peer: string; modifier1: number }
  'peer-turned-away': { peer: string; because: string }

  /** A control socket could not be opened: in this spool, or at this path. */
  'control-unavailable': { place: string; error: string }
  /** Something that came through a FIFO of `master-fifo` was not obeyed. */
  'fifo-ignored': { path: string; why: string }
  /** A FIFO of `master-fifo` was removed or replaced, and cannot be opened again. */
  'fifo-unavailable': { path: string; why: string }
  'exporter-listening': { what: string; address: string }
  'exporter-alarm': { message: string }
  'exporter-trouble': { message: string }
  'dashboard-listening': { address: string }
  'dashboard-trouble': { message: string }

  'pidfile-written': { file: string }
  'pidfile-removed': { kind: PidfileKind }
  'pidfile-left': { file: string; error: string }

  /** A file watched for touches; `asks` is what a touch requests. */
  'file-touched': { file: string; asks: 'reload' | 'new-workers' }
  'file-awaited': { file: string }
  /** The new configuration is valid, and is about to be applied. */
  'reload-began': { because: string }
  'reload-refused': { error: string }
  'reload-done': Record<string, never>
  'stop-asked': { signal: string }
  /** Running tasks delay a stop; they are killed after `mercyMs`. */
  'stop-waits': { running: readonly TaskName[]; mercyMs: number }
  'stop-forced': { signal: string }
  /** Somebody asked what the processes do. `kernel`: the state of the process, and where it waits. */
  'process-described': {
    spool: string
    pid: number
    state: string
    running: ReadonlyArray<{ readonly ref: Ref; readonly forMs: number }>
    signals: readonly number[]
    /** How many tasks and signals it was given and has not started. */
    ahead: number
    kernel: string | null
  }
  /** It gives out no more tasks and signals, because of this signal or request. */
  'quiet-began': { because: string }
  'quiet-ended': { because: string }
  /** `--drain` has ended: the number of tasks that ran to SPOOL_OK, and of the others per outcome. */
  'daemon-drained': { done: number; unfinished: Readonly<Record<string, number>> }
  'daemon-stopped': Record<string, never>
}

export type EventName = keyof EventMap

/** What becomes lines of the log: all but measurements, which are made for whoever listens. */
export type LoggedEvent = Exclude<EventName, 'run-times' | 'named-runs'>

/** What writes the lines of each event. */
export type Listeners = { readonly [Name in LoggedEvent]: (payload: EventMap[Name]) => void }

/** Where text was printed; `output`: to either, by an interpreter that does not distinguish them. */
export type Stream = 'stdout' | 'stderr' | 'output'

/** Why a worker asks for its successor. Memory is in bytes. */
export type RecycleReason =
  | { readonly kind: 'tasks'; readonly limit: number }
  | { readonly kind: 'rss' | 'as'; readonly bytes: number; readonly limit: number }
