import { formatKeyvals, parseKeyvals } from '../../base/keyval.js'
import type { ToldSetting } from '../control/configuration.js'
import { HIDDEN, type Hide } from '../protocol/hide.js'
import { type EffectiveSetting, effectiveSettings, effectiveSpools, originOf } from './effective.js'
import { findOption } from './option-table.js'
import type { ResolvedOptions } from './options.js'

/**
 * Yields all settings in effect: the spools with their own options, and then what holds for all.
 *
 * @param hide null: nothing is hidden
 */
export function* shownSettings(resolved: ResolvedOptions, hide: Hide | null): Generator<ToldSetting> {
  for (const { directory, values, ...setting } of effectiveSpools(resolved)) {
    const isCode = values.some(({ option }) => CODE.has(option))
    yield shown(setting, hide, isCode)
    const spool = hide === null ? directory : hide.configured(directory)
    for (const value of values) yield { ...shown(value, hide), spool }
  }
  for (const setting of effectiveSettings(resolved)) yield shown(setting, hide)
}

/**
 * Yields `uwsgi.opt`: every setting, and the spools of `spooler2` for code that looks for a spooler there, as uwsgidecorators
 * does.
 */
export function* seenByHandlers(
  { settings, spools }: ResolvedOptions,
  hide: Hide | null = null,
): Generator<readonly [option: string, value: string]> {
  for (const { key, value, where } of settings)
    yield [key, hide === null ? value : shownValue({ option: key, value, where }, hide)]
  const named = new Set(settings.flatMap(({ key, value }) => (key === 'spooler' ? [value] : [])))
  for (const { directory, describedBy, isExternal } of spools)
    if (describedBy === 'spooler2' && !isExternal && !named.has(directory))
      yield ['spooler', hide === null ? directory : hide.configured(directory)]
}

const CODE: ReadonlySet<string> = new Set(['spooler-exec', 'cron', 'unique-cron', 'cron2', 'eval', 'pyargv'])

function shown(setting: EffectiveSetting, hide: Hide | null, isCode = CODE.has(setting.option)): ToldSetting {
  const { option } = setting
  const value = hide === null ? setting.value : shownValue(setting, hide)
  return { option, value, from: originOf(setting), ...(isCode ? { isCode: true } : {}) }
}

function shownValue({ option, value }: EffectiveSetting, hide: Hide): string {
  switch (findOption(option)?.name) {
    case 'env':
      return value.replace(/=.*$/s, `=${HIDDEN}`)
    case 'spooler-alarm':
      return withoutUrl(value, hide)
    default:
      return hide.configured(value)
  }
}

/**
 * Hides the URL of a webhook, because the URL is a secret itself, even under a mistyped key. The name of a file that has the URL
 * is not hidden.
 */
function withoutUrl(value: string, hide: Hide): string {
  return formatKeyvals(
    parseKeyvals(value).map(({ key, value: text }) => ({
      key: hide.configured(key),
      value: key === 'url' && text?.startsWith('@') === false ? HIDDEN : text,
    })),
  )
}
