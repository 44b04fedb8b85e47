import { quietly } from '../../base/errors.js'
import type { Options } from '../../formats/config/option-table.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { needsInsecure } from '../net/check.js'
import { parsePush } from '../net/stats-push.js'
import type { AlarmMemory } from './alarms.js'

/** The options that say what the exporter publishes, and where. While they stay the same, the process stays. */
const PUBLISHED = [
  'stats',
  'statsHttp',
  'statsMinified',
  'statsNoCores',
  'statsPush',
  'statsPusherDefaultFreqMs',
  'statsdNoWorkers',
  'statsdAllGauges',
  'carbon',
  'carbonFreqMs',
  'carbonTimeoutMs',
  'carbonId',
  'carbonRoot',
  'carbonNoWorkers',
  'carbonHostnameDots',
  'carbonIdleAvg',
  'socket',
  'chmodSocket',
  'spoolerMetrics',
  'spoolerMetricsFile',
  'spoolerAlarm',
  'spoolerHttpInsecure',
] as const satisfies ReadonlyArray<keyof Options>

/** What the exporter publishes, and where. It is sent once, as the first message. */
export type ExporterOptions = Pick<Options, (typeof PUBLISHED)[number]>

/** @returns undefined if there is nothing to publish */
export function exporterOptions(options: Options): ExporterOptions | undefined {
  const given = Object.fromEntries(PUBLISHED.map(name => [name, options[name]])) as unknown as ExporterOptions
  const isClosed = given.stats !== null && given.statsHttp && needsInsecure(given.stats, given)
  const published: ExporterOptions = {
    ...given,
    stats: isClosed ? null : given.stats,
    // without destinations that only uWSGI knows; the check of the configuration has warned about them
    statsPush: given.statsPush.filter(text => quietly(() => parsePush(text)) !== undefined),
  }
  const { stats, spoolerMetrics, spoolerMetricsFile, statsPush, carbon, spoolerAlarm } = published
  const servesNone = stats === null && spoolerMetrics === null && spoolerMetricsFile === null
  const isSilent = servesNone && [...statsPush, ...carbon, ...spoolerAlarm].length === 0
  return isSilent ? undefined : published
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
