import { isUtf8 } from 'node:buffer'
import { HEADER_BYTES } from './header.js'
import { ARGS_KEY, IN_BODY, KWARGS_KEY, TASK_KEY } from './named.js'
import { encodePacket, type VarPair } from './packet.js'
import { parseVars, toPairs, type Vars } from './vars.js'

/** What stands for a value that is hidden. */
export const HIDDEN = '[hidden]'
/** Values that are nested deeper than this are not looked at, but hidden. */
const MAX_DEPTH = 32
/** A text that is longer than this is not parsed. It is hidden if it looks like JSON. */
const MAX_JSON_CHARS = 4 * 1024 * 1024
/** A shorter value is not searched for, because it occurs in many texts by chance and is no secret. */
const LEAST_SECRET_CHARS = 4
/** What is hidden in a line: a quoted text, bytes as Python and Node show them, or everything up to the end of a word. */
const VALUE = `(?:b?"[^"\\\\]*(?:\\\\.[^"\\\\]*)*"?|b?'[^'\\\\]*(?:\\\\.[^'\\\\]*)*'?|<Buffer[^>]*>?|[^\\s,;&"'(){}\\[\\]]+)`

/**
 * Hides the values of some keys (`spooler-hide`) from everybody who looks at tasks: in packets, in JSON at any depth, and in
 * lines. Keys match whatever their case. What cannot be parsed, such as a pickle, may contain such a value, so it is hidden as a
 * whole.
 */
export class Hide {
  /**
   * For where the keys are not known: hides every value, except the name of a named task, because that is the name of a function.
   */
  static readonly everything = new Hide([], true)
  readonly isEverything: boolean
  readonly #keys: ReadonlySet<string>
  /** Finds `key=value`, `key: value` and `"key": "value"` in a line; undefined: nothing is hidden. */
  readonly #inLines: RegExp | undefined

  constructor(keys: readonly string[], isEverything = false) {
    this.isEverything = isEverything
    const named = keys.map(key => key.trim().toLowerCase()).filter(key => key !== '')
    this.#keys = new Set(named)
    const any = named.map(key => key.replace(/[^a-z0-9_]/g, '\\$&')).join('|')
    if (any !== '')
      this.#inLines = new RegExp(`(?<![a-z0-9_])(${any})(\\\\?["']?\\s*(?:=>?|:)\\s*\\\\?)${VALUE}`, 'gi')
  }

  get isOn(): boolean {
    return this.isEverything || this.#inLines !== undefined
  }

  /** True if the values of a key are hidden. */
  has(key: string): boolean {
    return this.isEverything ? key !== TASK_KEY : this.#keys.has(key.toLowerCase())
  }

  /** Returns the pairs of a packet, with hidden values replaced. */
  vars(vars: Vars): Vars {
    if (!this.isOn) return vars
    const pairs = toPairs(vars).map(([key, value]): VarPair => [key, this.#value(key.toString(), value)])
    const packet = encodePacket(pairs)
    const parsed = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
    return 'fault' in parsed ? { text: '', cuts: [] } : parsed
  }

  /** Returns a body with hidden values replaced if it is JSON; any other body is hidden as a whole. */
  body(bytes: Buffer): Buffer {
    if (!this.isOn || bytes.length === 0) return bytes
    return Buffer.from(this.#json(bytes) ?? HIDDEN)
  }

  /** Hides values in the texts of one of our own objects, such as the fields of a log line. @param secrets as for `text` */
  texts<T extends object>(value: T, secrets: readonly string[] = []): T {
    return this.isOn ? (this.#everyText(value, secrets, 0) as T) : value
  }

  /** Hides the value of a pair of byte strings, such as that of a pause. */
  pair([key, value]: readonly [key: string, value: string]): readonly [key: string, value: string] {
    if (!this.isOn) return [key, value]
    const [keyBytes, bytes] = [Buffer.from(key, 'latin1'), Buffer.from(value, 'latin1')]
    return [key, this.#value(keyBytes.toString(), bytes).toString('latin1')]
  }

  /** Hides values in a filter of tasks, given as JSON. In a filter, `key=value` is one text, whatever is in the value. */
  filter(json: string): string {
    if (!this.isOn) return json
    try {
      return JSON.stringify(this.#inside(JSON.parse(json), 0), (_, value) =>
        typeof value === 'string' ? this.#named(value) : value,
      )
    } catch {
      return this.text(json)
    }
  }

  #named(text: string): string {
    const cut = text.indexOf('=')
    return cut > 0 && this.has(text.slice(0, cut)) ? `${text.slice(0, cut)}=${HIDDEN}` : this.text(text)
  }

  /**
   * Returns the values of hidden keys in a task, the longest first, because an error may quote a value without its key.
   *
   * @param body undefined: the body is not searched
   */
  secretsIn(vars: Vars, body?: Buffer): string[] {
    if (!this.isOn) return []
    const found = new Set<string>()
    for (const [key, value] of toPairs(vars))
      if (this.has(key.toString())) {
        addTexts(value.toString(), found)
        addTexts(parsed(value), found)
      } else this.#addSecrets(parsed(value), found, 0)
    if (body !== undefined) this.#addSecrets(parsed(body), found, 0)
    return [...new Set([...found].flatMap(formsOf))]
      .filter(text => text.length >= LEAST_SECRET_CHARS)
      .sort((a, b) => b.length - a.length)
  }

  #addSecrets(value: unknown, found: Set<string>, depth: number): void {
    if (depth === MAX_DEPTH) return
    if (typeof value === 'string') return this.#addSecrets(parsed(Buffer.from(value)), found, depth + 1)
    if (typeof value !== 'object' || value === null) return
    for (const [key, each] of Object.entries(value))
      if (this.has(key) && !Array.isArray(value)) addTexts(each, found)
      else this.#addSecrets(each, found, depth + 1)
  }

  /** Hides values in a JSON value, such as an argument of a task. */
  json<T>(value: T): T {
    return this.isOn ? (this.#inside(value, 0) as T) : value
  }

  /**
   * Hides values in a line of a log, or an error.
   *
   * @param secrets texts that are hidden wherever they occur: `secretsIn` of the task
   */
  text(text: string, secrets: readonly string[] = []): string {
    if (this.isEverything) return text === '' ? text : HIDDEN
    if (this.#inLines === undefined) return text
    const without = secrets.reduce((rest, secret) => rest.replaceAll(secret, HIDDEN), text)
    try {
      return without.replace(this.#inLines, `$1$2${HIDDEN}`)
    } catch {
      return HIDDEN // V8 runs out of stack on a quoted text of megabytes of escapes
    }
  }

  /**
   * Returns where the pair of key and value begins that contains the cut, or that may go on after the end of the text; the cut
   * itself if it is in no pair.
   */
  startOfPair(text: string, cut: number): number {
    if (this.#inLines === undefined) return cut
    for (const { index, 0: pair } of text.matchAll(this.#inLines)) {
      const end = index + pair.length
      if (index < cut && (end > cut || (end === text.length && !text.endsWith('\n')))) return index
    }
    return cut
  }

  /**
   * Returns a text of the configuration without logins of addresses and without the values of keys that are called secrets,
   * whatever is hidden of tasks.
   */
  configured(text: string): string {
    return this.text(SECRETS.text(withoutLogins(text)))
  }

  #everyText(value: unknown, secrets: readonly string[], depth: number): unknown {
    if (typeof value === 'string') return this.text(value, secrets)
    if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) return value
    if (Array.isArray(value)) return value.map(each => this.#everyText(each, secrets, depth + 1))
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, this.#everyText(each, secrets, depth + 1)]),
    )
  }

  #value(key: string, value: Buffer): Buffer {
    if (this.has(key)) return Buffer.from(HIDDEN)
    if (this.isEverything) return value
    const json = this.#json(value)
    if (json !== undefined) return Buffer.from(json)
    const isJsonOnly = (key === ARGS_KEY && value.toString('latin1') !== IN_BODY) || key === KWARGS_KEY
    return isJsonOnly || !isPlain(value) ? Buffer.from(HIDDEN) : Buffer.from(this.text(value.toString()))
  }

  /** @returns undefined unless the bytes are a JSON object or array; the same text if nothing in it is hidden */
  #json(bytes: Buffer): string | undefined {
    if (bytes.length > MAX_JSON_CHARS || !isUtf8(bytes)) return undefined
    const text = bytes.toString()
    try {
      const value: unknown = JSON.parse(text)
      if (typeof value !== 'object' || value === null) return undefined
      const shown = this.#inside(value, 0)
      return shown === value ? text : JSON.stringify(shown)
    } catch {
      return undefined
    }
  }

  /** @returns the same value if nothing in it is hidden */
  #inside(value: unknown, depth: number): unknown {
    if (this.isEverything) return HIDDEN
    if (typeof value === 'string') return this.#insideText(value, depth)
    if (typeof value !== 'object' || value === null) return value
    if (depth === MAX_DEPTH) return HIDDEN
    const entries = Object.entries(value)
    const shown = entries.map(([key, each]) => [
      key,
      this.has(key) && !Array.isArray(value) ? HIDDEN : this.#inside(each, depth + 1),
    ])
    if (shown.every(([, each], i) => each === entries[i]?.[1])) return value
    return Array.isArray(value) ? shown.map(([, each]) => each) : Object.fromEntries(shown)
  }

  /** Hides values in a text within JSON, which is JSON itself, or words. */
  #insideText(text: string, depth: number): string {
    if (/^\s*[[{]/.test(text)) {
      if (depth >= MAX_DEPTH) return HIDDEN
      try {
        const value: unknown = JSON.parse(text)
        const shown = this.#inside(value, depth + 1)
        return shown === value ? text : JSON.stringify(shown)
      } catch {}
    }
    return this.text(text)
  }
}

/** The keys whose values are secrets by their names, whatever `spooler-hide` says. */
const SECRETS = new Hide(['password', 'passwd', 'secret', 'token'])
/**
 * Finds `scheme://user:password@`, where neither part contains a `/`. `REDIS_LOGIN` also finds the login of a mistyped address on
 * Redis.
 */
const LOGIN = /(:\/|\/\/)[^/?#\s]*@/g
const REDIS_LOGIN = /\b(rediss?(?:\+\w+)?:\/*).*@/gi

/** Returns the text without the logins of the addresses in it. */
export function withoutLogins(text: string): string {
  return text.replace(REDIS_LOGIN, `$1${HIDDEN}@`).replace(LOGIN, `$1${HIDDEN}@`)
}

/** @returns undefined if the bytes are no JSON, or too long */
function parsed(bytes: Buffer): unknown {
  if (bytes.length > MAX_JSON_CHARS || !isUtf8(bytes)) return undefined
  const text = bytes.toString()
  if (!/^\s*[[{"]/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Returns the forms in which a text may occur: as it is, in an address, in JSON, in quotes that need no escapes for its own, and
 * as the bytes that Python and Ruby quote.
 */
function formsOf(text: string): string[] {
  const inJson = JSON.stringify(text).slice(1, -1)
  const quoted = [inJson, inJson.replaceAll('\\"', '"')]
  const bytes = quoted.map(each =>
    Buffer.from(each)
      .toString('latin1')
      .replace(/[\x80-\xff]/g, byte => `\\x${byte.charCodeAt(0).toString(16)}`),
  )
  const inRuby = bytes.map(each => each.replace(/\\x../g, byte => `\\x${byte.slice(2).toUpperCase()}`))
  const inAddress = encodeURIComponent(Buffer.from(text).toString()) // a lone surrogate would throw
  return [text, inAddress, ...quoted, ...bytes, ...inRuby]
}

/** Adds what an error could quote of a value, however deep it is: its texts and numbers. */
function addTexts(value: unknown, found: Set<string>): void {
  const rest = [value]
  for (const each of rest)
    if (typeof each === 'string' || typeof each === 'number') found.add(String(each))
    else if (typeof each === 'object' && each !== null)
      for (const inner of Object.values(each)) rest.push(inner)
}

/** Returns the keys of `spooler-hide`. Each value may have several. */
export function keysOf(values: readonly string[]): string[] {
  return values
    .flatMap(value => value.split(','))
    .map(key => key.trim())
    .filter(key => key !== '')
}

/**
 * True for a text that a person could have written. A text that begins like JSON and is none, or looks like a pickle, is not
 * plain.
 */
function isPlain(value: Buffer): boolean {
  const text = value.toString()
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point
  return isUtf8(value) && !/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\np\d+\n/.test(text) && !/^\s*[[{]/.test(text)
}
