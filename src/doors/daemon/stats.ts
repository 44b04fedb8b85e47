import { hostname } from 'node:os'
import type { Emitter } from '../../base/events/emitter.js'
import type { Hide } from '../../formats/protocol/hide.js'
import { Collector } from '../../runtime/stats/collector.js'
import type { Master } from '../../runtime/supervisor/master.js'
import type { CheckedConfig } from '../check/check.js'
import type { Lifecycle } from './lifecycle.js'
import type { Schedules } from './schedules.js'
import type { DaemonSockets } from './sockets.js'

export interface Observed {
  readonly version: string
  readonly life: Lifecycle
  readonly master: Master
  readonly schedules: Schedules
  readonly network: DaemonSockets
  /** The configuration in effect. */
  config(): CheckedConfig
}

/** The collector of a daemon's snapshots. @param hide what is in none of them */
export function observe(events: Emitter, observed: Observed, hide: () => Hide): Collector {
  const { version, life, master, schedules, network, config } = observed
  const startedAtMs = Math.round(Date.now() - process.uptime() * 1000)
  return new Collector(events, {
    daemon: () => ({
      pid: process.pid,
      version,
      state: life.state,
      startedAtMs,
      isQuiet: master.isQuiet,
      host: hostname(),
      uid: process.geteuid?.() ?? 0,
      gid: process.getegid?.() ?? 0,
      directory: process.cwd(),
      files: config().files,
      rssBytes: process.memoryUsage.rss(),
    }),
    spools: () => master.stats,
    leadershipOf: spool => schedules.leadershipOf(spool),
    schedules: () => schedules.plan(),
    sockets: () => network.stats,
    hide,
  })
}
