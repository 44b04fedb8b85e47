import { SpooldError } from '../../base/errors.js'
import { isSeconds, parseTime } from '../../base/time-text.js'

/** What people type into a form or a prompt, by name. An empty text counts as no argument. */
export type Args = Readonly<Record<string, string | undefined>>

/** Who acts on a spool. */
export interface SpoolActor {
  /** The sockets at which its daemons are asked, if not those in the spool. */
  readonly sockets?: readonly string[] | undefined
  /** True: what is said of tasks may contain their values. Default: true. */
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
  return text === undefined ? undefined : timeArg(name, text, nowMs) * 1000
}

/** @param name of the argument or the flag @returns epoch seconds @throws SpooldError USAGE */
export function timeArg(name: string, text: string, nowMs = Date.now()): number {
  const seconds = parseTime(text, nowMs)
  if (seconds !== undefined) return seconds
  const hint = isSeconds(text) ? ', which is after the year 9999: are these milliseconds? Give seconds' : ''
  throw wrongArg(name, `epoch seconds, a date such as '2026-12-24 08:00', or +1h30m`, text, hint)
}

/** @throws SpooldError USAGE */
export function countArg(name: string, text: string): number {
  if (/^[0-9]{1,15}$/.test(text)) return Number(text)
  throw wrongArg(name, 'a whole number', text)
}

export function wrongArg(name: string, expected: string, got: string | undefined, hint = ''): SpooldError {
  return new SpooldError('USAGE', `${name}: expected ${expected}, got ${JSON.stringify(got)}${hint}`)
}
