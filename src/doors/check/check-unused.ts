import type { Options } from '../../formats/config/option-table.js'
import { findOption, propertyName } from '../../formats/config/option-table.js'
import { originOf, type ResolvedOptions } from '../../formats/config/options.js'
import { labelOf, type SpoolConfig, type SpoolSettings } from '../../formats/config/spools.js'
import type { Problems } from '../../formats/ini/setting.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'

/**
 * Options that nothing reads unless other options are set. uWSGI's own options are left out where uWSGI says nothing, and nothing
 * is lost.
 */
const UNUSED: ReadonlyArray<
  readonly [names: readonly string[], isRead: (options: Options) => boolean, why: string]
> = [
  [['logto'], ({ daemonize }) => daemonize === null, 'daemonize names the log'],
  [['log-date'], ({ logFormat }) => logFormat !== 'json', 'with log-format = json each line has its time'],
  [['master-as-root'], ({ uid, gid }) => (uid ?? gid) !== null, 'it needs uid or gid'],
  [
    [
      'socket-allow',
      'socket-max-body',
      'socket-request-timeout',
      'socket-keepalive-timeout',
      'socket-max-connections',
    ],
    ({ socket }) => socket.length > 0,
    'it needs socket',
  ],
  [
    ['spooler-dashboard-tokens', 'spooler-dashboard-enqueue'],
    ({ spoolerDashboard }) => spoolerDashboard.length > 0,
    'it needs spooler-dashboard',
  ],
  [
    ['spooler-http-insecure'],
    ({ stats, spoolerMetrics, spoolerAlarm, spoolerDashboard }) =>
      (stats ?? spoolerMetrics) !== null || spoolerAlarm.length + spoolerDashboard.length > 0,
    'it needs stats, spooler-metrics, spooler-alarm or spooler-dashboard',
  ],
]

/** Options that are about directories. */
const NOT_ON_REDIS = [
  'spooler-ordered',
  'spooler-lock',
  'spooler-watch',
  'spooler-sync',
  'spooler-strict-names',
  'spooler-sweep',
]

/** Warns about options that were written and have no effect, because another option says otherwise or is missing. */
export function checkUnused(resolved: ResolvedOptions, problems: Problems): void {
  const { options, spools } = resolved
  for (const [names, isRead, why] of UNUSED)
    if (!isRead(options))
      for (const name of names) if (isOn(options, name)) warn(resolved, name, why, problems)
  const onRedis = spools.filter(({ directory }) => isRedisAddress(directory))
  if (onRedis.length === 0) return
  const why = 'a spool on Redis is no directory'
  for (const name of NOT_ON_REDIS) {
    const own = onRedis.filter(({ ownKeys }) => ownKeys.has(name))
    for (const spool of own) warn(spool, name, why, problems)
    const [shared] = onRedis.filter(spool => !own.includes(spool))
    if (shared !== undefined && onRedis.length === spools.length) warn(shared, name, why, problems)
  }
}

/** True if the option is on: it was not written as an off flag. */
function isOn(options: Options, name: string): boolean {
  const spec = findOption(name)
  return spec !== undefined && Reflect.get(options, propertyName(spec)) !== false
}

function warn(
  settings: Pick<SpoolSettings | SpoolConfig, 'origins' | 'labels'>,
  name: string,
  why: string,
  problems: Problems,
): void {
  if (settings.origins.has(name))
    problems.warning(originOf(settings, name), `${labelOf(settings, name)} has no effect: ${why}`)
}
