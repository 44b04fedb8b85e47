import type { Options } from '../../formats/config/option-table.js'
import type { ResolvedOptions } from '../../formats/config/options.js'
import { shownSettings } from '../../formats/config/shown-settings.js'
import {
  MOST_SETTINGS,
  type ToldConfiguration,
  type ToldSetting,
} from '../../formats/control/configuration.js'
import { Hide, keysOf } from '../../formats/protocol/hide.js'
import { type Action, actionFor } from '../control/actions.js'

/** Options that a running process cannot change. */
const FIXED = [
  'uid',
  'gid',
  'addGid',
  'masterAsRoot',
  'daemonize',
  'pidfile',
  'safePidfile',
  'logto',
  'logFormat',
  'logDate',
  'socket',
  'chmodSocket',
  'chownSocket',
  'listen',
  'spoolerControl',
  'masterFifo',
] as const satisfies ReadonlyArray<keyof Options>

/**
 * The verb `config`: the configuration that the running daemon uses, whatever its files say by now.
 *
 * @param current the configuration in effect: at first that of the start, later that of the last reload
 */
export function configAction(current: () => ResolvedOptions): Action {
  const started = current()
  return actionFor('operator', {}, () => told(started, current()))
}

function told(started: ResolvedOptions, current: ResolvedOptions): ToldConfiguration {
  const hide = new Hide(keysOf(current.options.spoolerHide))
  const now = [...shownSettings(current, hide)]
  const before = started === current ? now : [...shownSettings(started, hide)]
  const waiting = unapplied(started.options, current.options)
  const waits = ({ option }: ToldSetting) => waiting.includes(option)
  const settings = [...before.filter(waits), ...now.filter(setting => !waits(setting))]
  return {
    pid: process.pid,
    settings: settings.slice(0, MOST_SETTINGS),
    isCut: settings.length > MOST_SETTINGS,
    waiting: waiting.flatMap(option => {
      const given = now.filter(setting => setting.option === option)
      return given.length > 0 ? given : [{ option, value: '', from: 'default' }]
    }),
  }
}

/** Returns a warning about changed options that a reload cannot apply. */
export function unappliedWarning(before: Options, after: Options): string | undefined {
  const changed = unapplied(before, after)
  if (changed.length === 0) return undefined
  return `these options of the new configuration count only after a restart: ${changed.join(', ')}`
}

/** Returns the changed options that a reload cannot apply. */
function unapplied(before: Options, after: Options): string[] {
  const changed = FIXED.filter(name => String(before[name]) !== String(after[name]))
  return changed.map(name => name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`))
}
