import { printable } from '../../base/printable.js'

/**
 * Returns the time zone that a value of `TZ` names, in a spelling that `Intl` takes; undefined if the value names none. Like
 * libc, it takes `:Europe/Berlin` and a file below a `zoneinfo` directory. A POSIX rule (`CET-1CEST,M3.5.0,M10.5.0/3`) is not a
 * name: libc follows such a rule, but V8 counts in UTC.
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
 * Returns what decides the time zone of a process: the value of its `TZ`, empty if it has none, and a text for people.
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

/** Returns the time zone of this process: the one that its `TZ` names, or the system's. */
export function ownZone(): string {
  const { TZ: tz = '' } = process.env
  const system = Intl.DateTimeFormat().resolvedOptions().timeZone as string | undefined // undefined for a `TZ` that names no zone
  return (tz === '' ? undefined : zoneNamed(tz)) ?? (system === 'Etc/Unknown' ? undefined : system) ?? 'UTC'
}
