import { SpooldError } from '../../base/errors.js'
import { isSeconds, parseTime } from '../../base/time-text.js'

/** What people type into a form or a prompt, by name. An empty text is none. */
export type Args = Readonly<Record<string, string | undefined>>

/** Who acts on a spool. */
export interface SpoolActor {
  /** Where its daemons are asked, if not at the sockets in the spool. */
  readonly sockets?: readonly string[] | undefined
  /** What is said of tasks has their values. Default: it may. */
  readonly mayReadPayload?: boolean
}

/** @returns undefined if nothing was typed */
export function given(args: Args, name: string): string | undefined {
  const text = args[name]?.trim() ?? ''
  return text === '' ? undefined : text
}

/** @returns epoch ms; undefined if nothing was typed @throws SpooldError USAGE */
export function givenTime(args: Args, name: string, nowMs: number): number | undefined {
  const text = given(args, name)
  if (text === undefined) return undefined
  const seconds = parseTime(text, nowMs)
  if (seconds !== undefined) return seconds * 1000
  const hint = isSeconds(text) ? ', which is after the year 9999: give seconds' : ''
  throw wrongArg(name, `epoch seconds, a date such as '2026-12-24 08:00', or +1h30m`, `${text}${hint}`)
}

export function wrongArg(name: string, expected: string, got: string): SpooldError {
  return new SpooldError('USAGE', `${name}: expected ${expected}, got ${JSON.stringify(got)}`)
}
