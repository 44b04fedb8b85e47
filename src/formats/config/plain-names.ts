import type { Config } from '../ini/read-config.js'
import { formatWhere, type Setting } from '../ini/setting.js'
import { findOption, type OptionSpec } from './option-table.js'
import { leftToSite, requestServing } from './site.js'

/** uWSGI's options for the maximum number of processes, which means its request workers. */
const MAXIMUM = new Set(['workers', 'processes'])

/** What each setting of a configuration means. */
interface Meanings {
  /** The settings in the order in which they count: what is written for spools wins over uWSGI's names. */
  readonly settings: readonly Setting[]
  /** Returns the option that a setting means; undefined: it means nothing here. */
  optionOf(setting: Setting): OptionSpec | undefined
}

/**
 * Decides whose processes uWSGI's names are about (`plain` in the option table). In a configuration that serves requests, they
 * are about uWSGI's request workers. Otherwise they are about the processes of the spools, and beside a plain `cheaper`,
 * `workers` is their maximum. Settings that belong to a site mean nothing here, either.
 */
export function meaningsOf({ settings, problems }: Config): Meanings {
  const options = settings.filter(({ isPlaceholder }) => isPlaceholder !== true)
  const plain = options.filter(setting => isPlain(setting) && !MAXIMUM.has(setting.key))
  const serving = requestServing(options)
  const has = (name: string) =>
    options.some(setting => !isPlain(setting) && findOption(setting.key)?.name === name)
  const takesMaximum =
    serving === undefined && plain.some(({ key }) => key === 'cheaper') && !has('spooler-processes')
  if (serving !== undefined && plain[0] !== undefined) {
    const names = plain.map(({ key, where }) => `${key} (${formatWhere(where)})`)
    const ours = [...new Set(plain.flatMap(({ key }) => findOption(key)?.name ?? []))]
    problems.warning(
      plain[0].where,
      `left to uWSGI, because ${serving.key} (${formatWhere(serving.where)}) serves requests: ${names.join(', ')}; ` +
        `for the processes of spools write ${ours.join(', ')}`,
    )
  }
  const left = leftToSite(settings, problems)
  return {
    settings: [...settings].sort((a, b) => Number(isPlain(b)) - Number(isPlain(a))),
    optionOf(setting) {
      if (left.has(setting)) return undefined
      if (takesMaximum && MAXIMUM.has(setting.key)) return findOption('spooler-processes')
      return serving !== undefined && isPlain(setting) ? undefined : findOption(setting.key)
    },
  }
}

function isPlain({ key }: Setting): boolean {
  return MAXIMUM.has(key) || (findOption(key)?.plain?.includes(key) ?? false)
}
