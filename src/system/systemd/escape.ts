import { SpooldError } from '../../base/errors.js'

/** A whole value, such as a path: `%` would begin a specifier. @throws SpooldError CONFIG_INVALID */
export function value(text: string): string {
  for (const char of text)
    if (char < ' ' || char === '\x7f' || char === '\ufffd')
      throw new SpooldError(
        'CONFIG_INVALID',
        `${JSON.stringify(text)} cannot be written in a unit: expected UTF-8 without control characters`,
      )
  return text.replaceAll('%', '%%')
}

/** One of the words of a value (systemd.syntax(7)). */
export function word(text: string): string {
  const safe = value(text)
  return /^[^\s"'\\;]+$/.test(safe) ? safe : `"${safe.replace(/["\\]/g, '\\$&')}"`
}

/** One of the words of a command, in which `$` begins a variable. */
export function argument(text: string): string {
  return word(text).replaceAll('$', '$$$$')
}

/** A path in a glob(7). */
export function literal(path: string): string {
  return value(path).replace(/[*?[\\]/g, '[$&]')
}
