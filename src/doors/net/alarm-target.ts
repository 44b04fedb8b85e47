import { isAbsolute } from 'node:path'
import { describe, SpooldError } from '../../base/errors.js'
import { parseKeyvals } from '../../base/keyval.js'
import { parseDuration } from '../../base/time-text.js'
import { isLocal } from '../../formats/protocol/address.js'

/** One value of `spooler-alarm`. */
export interface AlarmTarget {
  /** Where alarms are posted; null: they are only logged. */
  readonly webhook: Webhook | null
  readonly limits: AlarmLimits
}

export interface Webhook {
  /** The URL, or the path of a file that contains it. */
  readonly url: { readonly text: string } | { readonly file: string }
  /** The path of the file with the key that signs messages; null: they are not signed. */
  readonly secretFile: string | null
}

/** The limits beyond which an alarm is raised; null: no alarm. */
export interface AlarmLimits {
  readonly maxDue: number | null
  readonly maxAgeMs: number | null
  /** The free share of the disk, 0 to 1. */
  readonly minFree: number | null
}

const KEYS = ['url', 'secret', 'max-due', 'max-age', 'min-free']

/**
 * Parses `url=https://…|@FILE,secret=@FILE,max-due=N,max-age=10m,min-free=5`, all optional. No error message contains a secret,
 * or a URL, which may have a secret in its path.
 *
 * @throws SpooldError CONFIG_INVALID
 */
export function parseAlarm(text: string): AlarmTarget {
  const values = new Map(parseKeyvals(text).map(({ key, value = '' }) => [key, value]))
  for (const key of values.keys())
    if (!KEYS.includes(key)) {
      const got = /^[\w-]{1,40}$/.test(key) ? describe(key) : 'something else' // a URL is a secret itself
      throw invalid(`expected ${KEYS.join('=, ')}=, got ${got}`)
    }
  const url = values.get('url')
  const secret = values.get('secret')
  if (url === undefined && secret !== undefined) throw invalid('secret= signs what is posted: add url=')
  return {
    webhook:
      url === undefined
        ? null
        : { url: urlOf(url), secretFile: secret === undefined ? null : fileOf('secret', secret) },
    limits: {
      maxDue: number('max-due', values.get('max-due'), /^([0-9]+)$/, 'a number such as 1000'),
      maxAgeMs: age(values.get('max-age')),
      minFree: share(values.get('min-free')),
    },
  }
}

/**
 * Parses the URL of a webhook.
 *
 * @param allowsPlain true: plain HTTP to another machine is allowed, too
 * @throws SpooldError CONFIG_INVALID
 */
export function webhookUrl(text: string, allowsPlain: boolean): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !['https:', 'http:'].includes(url.protocol))
    throw invalid('expected url=https://…, got something else')
  if (url.username !== '' || url.password !== '')
    throw invalid('expected a URL without user and password; sign the messages with secret=@FILE')
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const isPlain = url.protocol === 'http:' && !isLocal({ kind: 'tcp', host, port: 0 })
  if (isPlain && !allowsPlain)
    throw invalid(`alarms would travel to ${host} over plain HTTP; use https, or set spooler-http-insecure`)
  return url
}

function urlOf(text: string): Webhook['url'] {
  return text.startsWith('@') ? { file: fileOf('url', text) } : { text }
}

function fileOf(key: string, text: string): string {
  if (text.startsWith('@') && isAbsolute(text.slice(1))) return text.slice(1)
  throw invalid(`expected ${key}=@FILE with an absolute path, got something else (which is not shown)`)
}

function age(text: string | undefined): number | null {
  if (text === undefined) return null
  const ms = parseDuration(text)
  if (ms === undefined) throw invalid(`max-age: expected a duration such as 10m, got ${describe(text)}`)
  return ms
}

function share(text: string | undefined): number | null {
  const percent = number('min-free', text, /^([0-9]{1,2}(?:\.[0-9]+)?)%?$/, 'a percentage such as 5')
  return percent === null ? null : percent / 100
}

function number(key: string, text: string | undefined, form: RegExp, expected: string): number | null {
  if (text === undefined) return null
  const [, digits] = form.exec(text) ?? []
  if (digits === undefined) throw invalid(`${key}: expected ${expected}, got ${describe(text)}`)
  return Number(digits)
}

function invalid(message: string): SpooldError {
  return new SpooldError('CONFIG_INVALID', message)
}
