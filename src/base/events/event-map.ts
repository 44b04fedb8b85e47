import type { Pauses } from '../task/pause.js'
import type { Ref, TaskName } from '../task/ref.js'
import type { NamedRuns, Report } from '../task/report.js'
import type { PeriodicTask, Schedule, SignalSchedule } from '../task/schedule.js'

export type PidfileKind = 'pidfile' | 'safe pidfile'

/** Whose events say that there are new tasks. */
type EventsOf = 'file-system' | 'Redis'

/** A supplementary group. `name` is null if the system does not know it. */
export interface AdditionalGroup {
  readonly gid: number
  readonly name: string | null
}

/** All events with their payloads. The name of an event is a fact, past or present, never a command. Tasks are told by name. */
export interface EventMap {
  'config-read': { file: string }
  'config-warning': { message: string }
  'master-spawned': { pid: number }
  'identity-taken': { uid: number; gid: number; groups: readonly AdditionalGroup[] }
  'directory-entered': { directory: string }
  'daemon-started': { pid: number; version: string }
  /** `die-on-idle`: the daemon stops, because it had nothing to do for this long. */
  'daemon-idle': { idleMs: number }
  'start-failed': { error: string }
  /** A message to the service manager could not be sent. */
  'notification-failed': { error: string }
  'spool-opened': { spool: string; locks: 'ofd' | 'lockfile' | 'redis'; because?: string }

  'worker-spawned': { spool: string; pid: number }
  /** `running`: the tasks that the worker had begun. `isReplaced`: true if another worker takes its place. */
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
  /** `kept` workers with the old code stay after a reload, because no worker with the new code can start in their place. */
  'workers-kept': { spool: string; kept: number; error: string }
  'worker-recycling': { spool: string; pid: number; because: RecycleReason }
  /** The worker is about to be killed, because it exceeds `evil-reload-on-…`. `number`: its place in the pool, from 1. */
  'worker-overweight': { spool: string; pid: number; number: number; kind: 'rss' | 'as'; bytes: number }
  /** The worker is replaced, because it is older than `max-worker-lifetime`. */
  'worker-outlived': { spool: string; pid: number; number: number; livedMs: number }
  'worker-faulted': { spool: string; pid: number; error: string; running: readonly TaskName[] }
  'worker-unfit': { spool: string; pid: number; error: string; running: readonly TaskName[] }
  /** The worker is about to be killed, because a task of it overran its deadline. */
  'worker-overran': { spool: string; pid: number }
  /**
   * Tasks overran their deadline in a worker that was killed for this, and has ended. `isOwn`: true for a deadline that the task had set
   * itself.
   */
  'tasks-overran': { spool: string; pid: number; names: readonly TaskName[]; isOwn: boolean }
  /** The worker is about to be killed, because these cancelled tasks do not end; nothing else runs in it. */
  'worker-cancelled': { spool: string; pid: number; names: readonly TaskName[] }
  'worker-out-of-mercy': { spool: string; pid: number; running: readonly TaskName[] }
  /** These runs, which a stop interrupted, will count as crashes, because their marks could not be taken off. */
  'marks-left': { spool: string; names: readonly TaskName[]; error: string }
  'worker-stopping': { spool: string; pid: number }
  'worker-stopped': { spool: string; pid: number }
  /** An interpreter of a worker died; another one is being started. */
  'host-died': { spool: string; pid: number; detail: string }
  /** The worker is dismissed, because there are to be fewer. `idleMs`: null if the worker was still loading. */
  'worker-cheaped': { spool: string; pid: number; idleMs: number | null }
  'spool-went-cheap': { spool: string }
  /** The number of processes that a spool is to have has changed. `algorithm`: null if the number is fixed. */
  'pool-scaled': { spool: string; algorithm: string | null; from: number; to: number; reason: string }
  /** An algorithm has something to say: a line as uWSGI writes it. */
  'scaling-logged': { spool: string; line: string }
  /** All workers together have too much memory, and one is to go. `workers`: how many there are. */
  'scaling-memory-short': { workers: number }
  /** An algorithm failed; the pool keeps its size. */
  'scaling-failed': { spool: string; error: string }

  'task-started': { spool: string; pid: number; name: TaskName }
  /**
   * `done`: the tasks that ran to SPOOL_OK, without details unless there are listeners for single tasks. `reports`: all others.
   * `known`: the tasks for which 'task-started' was emitted.
   */
  'tasks-reported': {
    spool: string
    pid: number
    done: readonly TaskName[]
    reports: readonly Report[]
    known: ReadonlySet<TaskName>
  }
  /**
   * Packed histograms (task/histogram) of the runs that a worker has reported: how long they took, and how long their tasks
   * had waited, in microseconds.
   */
  'run-times': { spool: string; ran: readonly number[]; waited: readonly number[] }
  /** The runs of named tasks in a worker since its last such message. */
  'named-runs': { spool: string; pid: number; runs: readonly NamedRuns[] }
  /** People cancelled a task that a worker has, and the worker is told. */
  'task-cancelling': { spool: string; pid: number; name: TaskName }
  'task-logged': { spool: string; pid: number; name: string; message: string; stream?: Stream }
  /** Handlers printed a piece of text, which may end within a line. `name`: the task that printed it; null if unknown. */
  'task-printed': {
    spool: string
    pid: number
    name: TaskName | null
    stream: Stream
    text: string
    /** True if other tasks may run in the same process. */
    isBeside: boolean
  }

  'signal-registered': { spool: string; number: number; target: string }
  /** The handler of a signal threw, or its process died. */
  'signal-failed': { spool: string; pid: number; number: number; error: string }
  'signal-unhandled': { number: number }
  'signal-unroutable': { target: string; because: 'unsupported' | 'invalid' }
  'signals-full': { number: number; limit: number }

  'schedule-fired': SignalSchedule
  /** A person ran, paused, resumed or removed a schedule. */
  'schedule-changed': { spool: string; schedule: Schedule | PeriodicTask; verb: string; done: string }
  'schedules-full': { kind: Schedule['kind']; limit: number }
  'schedule-watch-failed': { path: string; error: string }
  /** Schedules that name no time zone count in this one from now on. `why`: where the zone comes from, for people. */
  'schedules-zoned': { zone: string; why: string }
  /** Of all daemons of a spool, one fires its schedules. `isLeading`: true if this daemon does from now on, false if another does. */
  'schedules-led': { spool: string; isLeading: boolean }
  'schedule-lease-failed': { spool: string; error: string }
  'command-started': { command: string; pid: number }
  'command-ended': { command: string; pid: number; ranMs: number }
  'command-overran': { command: string; pid: number }
  'command-failed': { command: string; error: string }

  /** A periodic task is due, but its last run, `stored`, has not ended. Emitted once for each such run. */
  'periodic-left-out': { spool: string; name: string; stored: string }
  /** The stored entry of a periodic task is damaged, and the task starts anew. */
  'periodic-damaged': { spool: string; name: string }
  'periodic-failed': { spool: string; error: string }
  /** A periodic task is not scheduled, because no spool is known for its queue. */
  'periodic-unplaced': { name: string; queue: string }

  /** The pauses have changed, and something is paused. */
  'pauses-changed': { spool: string; pauses: Pauses }
  /** Nothing is paused any more. */
  'pauses-ended': { spool: string }

  'spool-missing': { spool: string; error: string }
  'spool-back': { spool: string }
  /**
   * Redis cannot be reached, or the spool in it not be read. Nothing is known of the spool until 'spool-reached'. `isLasting`: that
   * takes a person.
   */
  'spool-unreachable': { spool: string; error: string; isLasting: boolean }
  'spool-reached': { spool: string }
  /** A spool has made no progress for half of the time of the service manager's watchdog, which is not fed until it does. */
  'spool-stalled': { spool: string; what: 'scan' | 'dispatch' }
  'spool-resumed': { spool: string; what: 'scan' | 'dispatch' }
  'spool-list-failed': { spool: string; prefix: string; error: string }
  'spool-list-back': { spool: string; prefix: string }
  'spool-unvisited': { spool: string; prefix: string }
  /** There are tasks in a directory whose name is no priority. A running uWSGI stores them there for `priority = urgent`. */
  'spool-astray': { spool: string; prefix: string }
  /** A process that is no worker of ours has had a task locked for long. `pid` is missing if we cannot see that process. */
  'spool-task-locked': { spool: string; name: string; forMs: number; pid?: number; command?: string }
  /**
   * Hidden files of dead writers were removed; tasks that such a writer had promised under an id were published; and files
   * that had replaced a task during its removal were moved back.
   */
  'spool-swept': { spool: string; removed: number; published: number; givenBack: number; forgotten: number }
  'spool-purged': { spool: string; removed: number }
  'spool-cleanup-failed': { spool: string; error: string }
  /** `prefix`: the directory in the spool; '' is the spool itself. */
  'watch-lost': { spool: string; of: EventsOf; prefix: string; error: string; frequencyMs: number }
  'watch-back': { spool: string; of: EventsOf }

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

  /** A control socket could not be opened. `place`: its spool, or its path. */
  'control-unavailable': { place: string; error: string }
  /** A FIFO of `master-fifo` delivered something that was not obeyed, or could not be read. */
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

  /** A file that is watched for touches was touched. `asks`: what the touch requests. */
  'file-touched': { file: string; asks: 'reload' | 'new-workers' }
  'file-awaited': { file: string }
  /** The new configuration is valid, and is about to be applied. */
  'reload-began': { because: string }
  'reload-refused': { error: string }
  'reload-done': Record<string, never>
  'stop-asked': { signal: string }
  /** Not all spools have started yet: `ready` of `spools`; the first of the others is `spool`. */
  'start-waits': { spool: string; ready: number; spools: number; afterMs: number }
  /** Running tasks delay a stop. After `mercyMs` their workers are killed. */
  'stop-waits': { running: readonly TaskName[]; mercyMs: number }
  'stop-forced': { signal: string }
  /** A person asked what the workers do. `kernel`: the state of the process as the kernel has it; null if unknown. */
  'process-described': {
    spool: string
    pid: number
    state: string
    running: ReadonlyArray<{ readonly ref: Ref; readonly forMs: number }>
    signals: readonly number[]
    /** The number of tasks and signals that the worker was given and has not started. */
    ahead: number
    kernel: string | null
  }
  /** The daemon gives out no more tasks and signals. `because`: the signal or request that asked for this. */
  'quiet-began': { because: string }
  'quiet-ended': { because: string }
  /** `--drain` has ended. `done`: how many tasks ran to SPOOL_OK. `unfinished`: how many did not, per outcome. */
  'daemon-drained': { done: number; unfinished: Readonly<Record<string, number>> }
  'daemon-stopped': Record<string, never>
}

export type EventName = keyof EventMap

/** The events that become lines of the log: all but measurements, which are made for other listeners. */
export type LoggedEvent = Exclude<EventName, 'run-times' | 'named-runs'>

/** The functions that write the lines of each event. */
export type Listeners = { readonly [Name in LoggedEvent]: (payload: EventMap[Name]) => void }

/** The stream to which text was printed. `output`: one of the two, from an interpreter that does not distinguish them. */
export type Stream = 'stdout' | 'stderr' | 'output'

/** Why a worker asks for its successor. Memory is in bytes. */
export type RecycleReason =
  | { readonly kind: 'tasks'; readonly limit: number }
  | { readonly kind: 'rss' | 'as'; readonly bytes: number; readonly limit: number }
