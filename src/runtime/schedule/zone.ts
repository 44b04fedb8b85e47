import { printable } from '../../base/printable.js'

/**
 * The time zone that a value of `TZ` names, in a spelling that `Intl` takes: `:Europe/Berlin` and a file below a `zoneinfo` directory are what
 * libc takes, too. Undefined: it names none. A POSIX rule (`CET-1CEST,M3.5.0,M10.5.0/3`) is no name, and V8 counts in UTC where
 * libc follows the rule.
 */
export function zoneNamed(tz: string): string | undefined {
  const name = tz
    .replace(/^:/, '')
    .replace(/^.*\/zoneinfo\/(?:posix\/)?|^posix\//, '')
    .replace(/^(?:UTC|GMT)(?=[-+]\d{1,2}$)/, 'Etc/GMT')
    .replace(/^(UTC|GMT)[-+]?0$/, '$1')
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return name
  } catch {
    return undefined
  }
}

/**
 * What says in which zone a process counts: the value of its `TZ`, if it has one, and a text for people.
 *
 * @param changes what the configuration does to the environment of the process
 */
export function zoneOrigin(changes: ReadonlyArray<readonly [name: string, value: string | undefined]>): {
  readonly tz: string
  readonly why: string
} {
  const changed = changes.findLast(([name]) => name === 'TZ')
  const tz = (changed === undefined ? process.env.TZ : changed[1]) ?? ''
  if (tz === '') return { tz, why: 'the zone of the system' }
  return {
    tz,
    why: `because ${changed === undefined ? 'the environment has' : 'the configuration has env ='} TZ=${printable(tz)}`,
  }
}

/** The zone in which this process counts: that of its `TZ`, or the system's. */
export function ownZone(): string {
  const { TZ: tz = '' } = process.env
  const system = Intl.DateTimeFormat().resolvedOptions().timeZone as string | undefined // of a `TZ` that names none
  return (tz === '' ? undefined : zoneNamed(tz)) ?? (system === 'Etc/Unknown' ? undefined : system) ?? 'UTC'
}
