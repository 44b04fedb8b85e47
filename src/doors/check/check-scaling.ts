import { resolve } from 'node:path'
import { counted } from '../../base/counted.js'
import { originOf, type ResolvedOptions } from '../../formats/config/options.js'
import { labelOf, type SpoolSettings } from '../../formats/config/spools.js'
import { nearestOf } from '../../formats/config/suggestion.js'
import type { Problems } from '../../formats/ini/setting.js'
import { ALGORITHMS } from '../../runtime/supervisor/scaling/algorithms.js'
import { statsOf } from '../../system/file-stats.js'

/** About the resident memory of a worker that has loaded a small handler. */
const SMALL_WORKER_BYTES = 48 * 1024 * 1024
/** With this many workers or fewer, each one more or less changes the average a lot. */
const FEW = 4

type Say = (name: string, message: string) => void

export function saying(
  settings: Pick<SpoolSettings, 'origins' | 'labels'>,
  problems: Problems,
  severity: 'error' | 'warning',
): Say {
  return (name, message) =>
    problems[severity](originOf(settings, name), `${labelOf(settings, name)}: ${message}`)
}

/**
 * Checks the options of scaling. A message about what uWSGI refuses, too, begins with uWSGI's own words (core/init.c,
 * sanitize_args).
 */
export function checkScaling(resolved: ResolvedOptions, home: string, problems: Problems): void {
  const { options } = resolved
  const error = saying(resolved, problems, 'error')
  const warning = saying(resolved, problems, 'warning')
  const soft = options.spoolerCheaperRssLimitSoft
  const hard = options.spoolerCheaperRssLimitHard
  if (hard > 0 && soft === 0)
    error(
      'spooler-cheaper-rss-limit-hard',
      'enabling cheaper-rss-limit-hard requires setting also cheaper-rss-limit-soft',
    )
  else if (hard > 0 && hard <= soft)
    error(
      'spooler-cheaper-rss-limit-hard',
      `cheaper-rss-limit-hard value must be higher than cheaper-rss-limit-soft value; expected more than ${soft}, got ${hard}`,
    )
  else if (hard > 0 && hard - soft < SMALL_WORKER_BYTES)
    warning(
      'spooler-cheaper-rss-limit-hard',
      `expected at least the soft limit and the memory of one worker, ${soft + SMALL_WORKER_BYTES} bytes or more, got ${hard}: a worker is stopped soon after it was started`,
    )
  if (options.spoolerCheckIntervalMs === 0)
    warning('spooler-check-interval', 'expected more than 0, got 0, which counts as 1, as in uWSGI')
  const spools = resolved.spools.length > 0 ? resolved.spools : [resolved.anySpool]
  for (const spool of spools) checkPool(spool, home, problems)
  if (options.spoolerDieOnIdle && spools.every(spool => spool.options.spoolerIdleMs === 0))
    warning('spooler-die-on-idle', 'expected idle = SECONDS with it, got none; the daemon does not stop')
}

function checkPool(spool: SpoolSettings, home: string, problems: Problems): void {
  const { options, origins } = spool
  const error = saying(spool, problems, 'error')
  const warning = saying(spool, problems, 'warning')
  const processes = Math.max(1, options.spoolerProcesses)
  const { spoolerCheaper: cheaper, spoolerCheaperInitial: initial } = options
  if (cheaper >= processes)
    error(
      'spooler-cheaper',
      `invalid cheaper value: must be lower than processes; expected less than ${processes}, got ${cheaper}; ` +
        'spooler-processes is the maximum',
    )
  if (cheaper === 0) warnUnused(origins, warning)
  if (options.spoolerMaxWorkerLifetimeMs === 0 && origins.has('spooler-max-worker-lifetime-delta'))
    warning('spooler-max-worker-lifetime-delta', 'has no effect without max-worker-lifetime = SECONDS')
  if (initial !== null && initial > 0 && initial < cheaper)
    warning(
      'spooler-cheaper-initial',
      `invalid cheaper-initial value (${initial}), must be equal or higher than cheaper (${cheaper}), using ${cheaper} as initial number of workers`,
    )
  else if (initial !== null && initial > processes)
    warning(
      'spooler-cheaper-initial',
      `invalid cheaper-initial value (${initial}), must be lower or equal than worker count (${processes}), using ${processes} as initial number of workers`,
    )
  checkAlgorithm(options.spoolerCheaperAlgo, home, error, warning)
  const { spoolerCheaperBusynessMin: min, spoolerCheaperBusynessMax: max } = options
  if (options.spoolerCheaperAlgo === 'busyness' && max <= min)
    warning(
      'spooler-cheaper-busyness-max',
      `expected more than the minimum of ${min} %, got ${max} %: otherwise the same load is too high and too low at once, and processes come and go`,
    )
  else if (options.spoolerCheaperAlgo === 'busyness' && processes <= FEW && max < 2 * min)
    warning(
      'spooler-cheaper-busyness-max',
      `with ${counted(processes, 'process', 'processes')}, expected at least twice the minimum of ${min} %, got ${max} %: stopping one may raise the others above the maximum`,
    )
  const { spoolerMaxWorkerLifetimeMs: longest, spoolerMinWorkerLifetimeMs: shortest } = options
  if (longest > 0 && shortest >= longest)
    error(
      'spooler-max-worker-lifetime',
      `invalid min-worker-lifetime value (${shortest / 1000}), must be lower than max-worker-lifetime (${longest / 1000})`,
    )
}

function warnUnused(origins: SpoolSettings['origins'], warning: Say): void {
  for (const name of ['algo', 'initial', 'step', 'overload', 'idle', 'wait'].map(
    each => `spooler-cheaper-${each}`,
  ))
    if (origins.has(name)) return warning(name, 'has no effect without spooler-cheaper = N, the minimum')
}

function checkAlgorithm(name: string, home: string, error: Say, warning: Say): void {
  if (name.includes('/')) {
    const file = resolve(home, name)
    if (statsOf(file)?.isFile() !== true) error('spooler-cheaper-algo', `expected a module, got ${file}`)
    return
  }
  const names = ALGORITHMS.map(each => each.name)
  if (names.includes(name)) return
  const nearest = nearestOf(name, names)
  warning(
    'spooler-cheaper-algo',
    `unable to find requested cheaper algorithm, falling back to spare; expected ${names.join(', ')} or ./FILE.mjs, ` +
      `got ${JSON.stringify(name)}${nearest === undefined ? '' : `; did you mean "${nearest}"?`}`,
  )
}
