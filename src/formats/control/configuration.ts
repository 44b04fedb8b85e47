import { hasFields } from '../../base/json-guard.js'

/** An option in effect, as a daemon tells it to `config`: without secrets. */
export interface ToldSetting {
  readonly option: string
  readonly value: string
  /** `app.ini:7`, `command line`, `environment NAME`, or `default`. */
  readonly from: string
  /** The spool whose own option it is; undefined: it holds for all spools. */
  readonly spool?: string
  /** True if the value is a command or a program, in which anything may be secret. */
  readonly isCode?: true
}

/** The configuration that a daemon runs with. */
export interface ToldConfiguration {
  readonly pid: number
  readonly settings: readonly ToldSetting[]
  /** True if there are more settings than are told. */
  readonly isCut: boolean
  /** The settings that the last reload has read, and that only a restart puts into service. */
  readonly waiting: readonly ToldSetting[]
}

/** The most settings that a daemon tells. */
export const MOST_SETTINGS = 2000

/** Reads a daemon's answer to `config`. @throws Error if it is none */
export function readConfiguration(answer: unknown): ToldConfiguration {
  if (!hasFields(answer, { pid: 'count', settings: 'objects', isCut: 'flag', waiting: 'objects' }, {}))
    throw new Error('the daemon answered config with something other than settings')
  const told = answer as ToldConfiguration
  if (![...told.settings, ...told.waiting].every(isSetting))
    throw new Error('the daemon answered config with something other than settings')
  return told
}

function isSetting(setting: ToldSetting): boolean {
  return hasFields(
    setting,
    { option: 'text', value: 'text', from: 'text' },
    { spool: 'text', isCode: 'flag' },
  )
}
