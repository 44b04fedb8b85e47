import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import type { ListenerOptions } from '../http/listener.js'
import type { AlarmMemory, AlarmOptions } from './alarms.js'
import type { CarbonOptions } from './carbon.js'
import type { StatsFileOptions } from './files.js'
import type { StatsdOptions } from './statsd.js'

/** What the exporter publishes, and where. It is sent once, as the first message. */
export interface ExporterOptions {
  /** uWSGI's stats server. */
  readonly stats: StatsOptions | null
  /** Where metrics are scraped. */
  readonly metrics: ListenerOptions | null
  /** The file to which metrics are written, a path as configured. */
  readonly metricsFile: string | null
  readonly pushes: readonly PushOptions[]
  readonly alarms: readonly AlarmOptions[]
}

/** Where statistics are pushed to, and how often. */
export type PushOptions = { readonly everyMs: number; readonly withCores: boolean } & (
  | ({ readonly kind: 'carbon' } & CarbonOptions)
  | ({ readonly kind: 'statsd' } & StatsdOptions)
  | ({ readonly kind: 'file' } & StatsFileOptions)
)

export interface StatsOptions {
  readonly listener: ListenerOptions
  /** `stats-http`: HTTP, not bare JSON. */
  readonly isHttp: boolean
  /** `stats-minified` */
  readonly isMinified: boolean
  /** False: `stats-no-cores`. */
  readonly withCores: boolean
}

/** Daemon to exporter. */
export type ToExporter =
  | {
      readonly type: 'open'
      readonly options: ExporterOptions
      /** What the exporter before this one remembered. */
      readonly alarmMemory: AlarmMemory
    }
  /** The answer to `ask`. */
  | { readonly type: 'snapshot'; readonly snapshot: DaemonSnapshot }

/** Exporter to daemon. */
export type FromExporter =
  /** The exporter needs a snapshot. There is at most one question at a time. */
  | { readonly type: 'ask' }
  | { readonly type: 'listening'; readonly what: string; readonly address: string }
  /** An alarm is raised or cleared; for the log. */
  | { readonly type: 'alarm'; readonly message: string }
  /** What the next exporter has to know. */
  | { readonly type: 'alarm-memory'; readonly memory: AlarmMemory }
  /** Something does not work, and is tried again; for the log. */
  | { readonly type: 'trouble'; readonly message: string }
