import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { Schedule, SignalSchedule } from '../task/schedule.js'
import type { Stream } from '../task/stream.js'

export type PidfileKind = 'pidfile' | 'safe pidfile'

/** A group besides the main one; `name` where the system knows it. */
export interface AdditionalGroup {
  readonly gid: number
  readonly name: string | null
}

/** Every fact that spoold tells the outside, and what comes with it. Names are past or present facts, never orders. */
export interface EventMap {
  'config-read': { file: string }
  'config-warning': { message: string }
  'master-spawned': { pid: number }
  'identity-taken': { uid: number; gid: number; groups: readonly AdditionalGroup[] }
  'directory-entered': { directory: string }
  'daemon-started': { pid: number; version: string }
  'start-failed': { error: string }
  'spool-opened': { spool: string; locks: 'ofd' | 'lockfile'; because?: string }

  'worker-spawned': { spool: string; pid: number }
  /** `running`: what had begun. */
  'worker-died': {
    spool: string
    pid: number
    code: number | null
    signal: string | null
    running: readonly Ref[]
  }
  /** A process could not even be made. */
  'worker-unforked': { spool: string; error: string }
  'worker-loading': { spool: string; pid: number; what: string; afterMs: number }
  'worker-respawn-delayed': { spool: string; delayMs: number }
  'worker-unloadable': { spool: string; error: string }
  'worker-recycling': { spool: string; pid: number; tasks: number }
  'worker-faulted': { spool: string; pid: number; error: string }
  'worker-unfit': { spool: string; pid: number; error: string }
  'worker-overran': { spool: string; pid: number; running: readonly Ref[] }
  'worker-out-of-mercy': { spool: string; pid: number; running: readonly Ref[] }
  /** Runs that were cut short by a stop, and will count as crashes. */
  'marks-left': { spool: string; refs: readonly Ref[]; error: string }
  'worker-stopping': { spool: string; pid: number }
  'worker-stopped': { spool: string; pid: number }
  /** An interpreter of a worker died; another one is started. */
  'host-died': { spool: string; pid: number; detail: string }
  'spool-cheaped': { spool: string }

  'task-started': { spool: string; pid: number; ref: Ref }
  /**
   * `done`: ran to SPOOL_OK, told without more where nobody listens to single tasks; `reports`: all others. `known`: the
   * refs whose start was told as 'task-started'.
   */
  'tasks-reported': {
    spool: string
    pid: number
    done: readonly Ref[]
    reports: readonly Report[]
    known: ReadonlySet<Ref>
  }
  'task-logged': { spool: string; pid: number; name: string; message: string; stream?: Stream }
  /** In pieces, which need not end with a line. `ref`: by this task; null: by nobody that is known. */
  'task-printed': {
    spool: string
    pid: number
    ref: Ref | null
    stream: Stream
    text: string
    /** Other tasks run beside it. */
    isBeside: boolean
  }

  'signal-registered': { spool: string; number: number; target: string }
  /** Its handler threw, or ended with its process. */
  'signal-failed': { spool: string; pid: number; number: number; error: string }
  'signal-unhandled': { number: number }
  'signal-unroutable': { target: string; because: 'unsupported' | 'invalid' }
  'signals-full': { number: number; limit: number }

  'schedule-fired': SignalSchedule
  'schedules-full': { kind: Schedule['kind']; limit: number }
  'schedule-unwatched': { path: string; error: string }
  /** With several daemons on a spool, one of them fires the schedules. */
  'schedules-led': { spool: string; isLeading: boolean }
  'schedules-unled': { spool: string; error: string }
  'command-started': { command: string; pid: number }
  'command-ended': { command: string; pid: number; ranMs: number }
  'command-overran': { command: string; pid: number }
  'command-failed': { command: string; error: string }

  'spool-missing': { spool: string; error: string }
  'spool-back': { spool: string }
  'spool-unlisted': { spool: string; prefix: string; error: string }
  'spool-unvisited': { spool: string; prefix: string }
  /** Nobody here runs it. Without a pid its holder is not to be seen. */
  'spool-task-locked': { spool: string; name: string; forMs: number; pid?: number; command?: string }
  /**
   * Hidden files of writers that died were removed; tasks that such a writer had promised under an id were published, and
   * those given back that had taken the name of a task while that was removed.
   */
  'spool-swept': { spool: string; removed: number; published: number; givenBack: number; forgotten: number }
  'spool-purged': { spool: string; removed: number }
  'spool-unswept': { spool: string; error: string }
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

  'pidfile-written': { file: string }
  'pidfile-removed': { kind: PidfileKind }
  'pidfile-left': { file: string; error: string }

  /** A file that is watched for touches; `asks` is what a touch means. */
  'file-touched': { file: string; asks: 'reload' | 'new-workers' }
  'file-awaited': { file: string }
  /** The new configuration is good, and is about to be put in place. */
  'reload-began': { because: string }
  'reload-refused': { error: string }
  'reload-done': Record<string, never>
  'stop-asked': { signal: string }
  /** Tasks keep a stop from its end; they are killed after `mercyMs`. */
  'stop-waits': { running: readonly Ref[]; mercyMs: number }
  'stop-forced': { signal: string }
  /** `--drain` is over: so many tasks ran to SPOOL_OK, and so many of the others ended in this way. */
  'daemon-drained': { done: number; unfinished: Readonly<Record<string, number>> }
  'daemon-stopped': Record<string, never>
}

export type EventName = keyof EventMap

/** What is to be done about some of the events. */
export type Listeners<Name extends EventName = EventName> = {
  readonly [Each in Name]: (payload: EventMap[Each]) => void
}
