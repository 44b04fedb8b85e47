import { formatKeyvals, parseKeyvals } from '../../base/keyval.js'
import type { ToldSetting } from '../control/configuration.js'
import { HIDDEN, Hide } from '../protocol/hide.js'
import { type EffectiveSetting, effectiveSettings, effectiveSpools, originOf } from './effective.js'
import { findOption } from './option-table.js'
import type { ResolvedOptions } from './options.js'

/** Everything that is in effect, without secrets: the spools with their own options, and then what holds for all. */
export function* shownSettings(resolved: ResolvedOptions, hide: Hide): Generator<ToldSetting> {
  for (const { directory, values, ...setting } of effectiveSpools(resolved)) {
    const isCode = values.some(({ option }) => CODE.has(option))
    yield shown(setting, hide, isCode)
    const spool = withoutSecrets(directory, hide)
    for (const value of values) yield { ...shown(value, hide), spool }
  }
  for (const setting of effectiveSettings(resolved)) yield shown(setting, hide)
}

const CODE: ReadonlySet<string> = new Set(['spooler-exec', 'cron', 'unique-cron', 'cron2', 'eval', 'pyargv'])

function shown(setting: EffectiveSetting, hide: Hide, isCode = CODE.has(setting.option)): ToldSetting {
  const { option } = setting
  const value = shownValue(setting, hide)
  return { option, value, from: originOf(setting), ...(isCode ? { isCode: true } : {}) }
}

function shownValue({ option, value }: EffectiveSetting, hide: Hide): string {
  switch (findOption(option)?.name) {
    case 'env':
      return value.replace(/=.*$/s, `=${HIDDEN}`)
    case 'spooler-alarm':
      return withoutUrl(value)
    default:
      return withoutSecrets(value, hide)
  }
}

/** The URL of a webhook is a secret itself; the name of a file that has it is none. */
function withoutUrl(value: string): string {
  return formatKeyvals(
    parseKeyvals(value).map(({ key, value: text }) => ({
      key,
      value: key === 'url' && text?.startsWith('@') === false ? HIDDEN : text,
    })),
  )
}

/** `scheme://user:password@`: no `/` is part of either. */
const LOGIN = /(:\/\/)[^/?#\s]*@/g
/** What holds a secret by its name, whatever `spooler-hide` says of tasks; a file is named after `@`. */
const SECRETS = new Hide(['password', 'passwd', 'secret', 'token'])

function withoutSecrets(text: string, hide: Hide): string {
  return hide.text(SECRETS.text(text.replace(LOGIN, `$1${HIDDEN}@`)))
}
