import { isUtf8 } from 'node:buffer'
import { HEADER_BYTES } from './header.js'
import { ARGS_KEY, IN_BODY, KWARGS_KEY } from './named.js'
import { encodePacket, type VarPair } from './packet.js'
import { parseVars, toPairs, type Vars } from './vars.js'

/** What stands for a value that is hidden. */
export const HIDDEN = '[hidden]'
/** Nothing deeper is looked at: it is hidden. */
const MAX_DEPTH = 32
/** A text that is longer is not parsed: it is hidden, if it looks like JSON. */
const MAX_JSON_CHARS = 4 * 1024 * 1024
/** What is hidden in a line: a quoted text, or all up to what ends a word. */
const VALUE = `(?:"(?:[^"\\\\]|\\\\.)*"?|'(?:[^'\\\\]|\\\\.)*'?|[^\\s,;&"'(){}\\[\\]]+)`

/**
 * Hides the values of some keys (`spooler-hide`) from everybody who looks at tasks: in packets, in JSON at any depth, and in
 * lines. The letters' case does not matter. What cannot be parsed, such as a pickle, may have such a value in it, so it is
 * hidden as a whole.
 */
export class Hide {
  readonly #keys: ReadonlySet<string>
  /** Finds `key=value`, `key: value` and `"key": "value"` in a line; undefined: nothing is hidden. */
  readonly #inLines: RegExp | undefined

  constructor(keys: readonly string[]) {
    const named = keys.map(key => key.trim().toLowerCase()).filter(key => key !== '')
    this.#keys = new Set(named)
    const any = named.map(key => key.replace(/[^a-z0-9_]/g, '\\$&')).join('|')
    if (any !== '')
      this.#inLines = new RegExp(`(?<![a-z0-9_])(${any})(\\\\?["']?\\s*(?:=>?|:)\\s*\\\\?)${VALUE}`, 'gi')
  }

  get isOn(): boolean {
    return this.#inLines !== undefined
  }

  /** The pairs of a packet. */
  vars(vars: Vars): Vars {
    if (!this.isOn) return vars
    const pairs = toPairs(vars).map(
      ([key, value]): VarPair => [key, this.#value(key.toString('latin1'), value)],
    )
    const packet = encodePacket(pairs)
    const parsed = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
    return 'fault' in parsed ? { text: '', cuts: [] } : parsed
  }

  /** A body: JSON, or it is hidden as a whole. */
  body(bytes: Buffer): Buffer {
    if (!this.isOn || bytes.length === 0) return bytes
    return Buffer.from(this.#json(bytes) ?? HIDDEN)
  }

  /** The texts in an object of our own, such as the fields of a log line. */
  texts<T extends object>(value: T): T {
    return this.isOn ? (this.#everyText(value, 0) as T) : value
  }

  /** A value that JSON can say, such as an argument of a task. */
  json<T>(value: T): T {
    return this.isOn ? (this.#inside(value, 0) as T) : value
  }

  /** A line of a log, or an error. */
  text(text: string): string {
    return this.#inLines === undefined ? text : text.replace(this.#inLines, `$1$2${HIDDEN}`)
  }

  #everyText(value: unknown, depth: number): unknown {
    if (typeof value === 'string') return this.text(value)
    if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) return value
    if (Array.isArray(value)) return value.map(each => this.#everyText(each, depth + 1))
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [key, this.#everyText(each, depth + 1)]),
    )
  }

  #value(key: string, value: Buffer): Buffer {
    if (this.#keys.has(key.toLowerCase())) return Buffer.from(HIDDEN)
    const json = this.#json(value)
    if (json !== undefined) return Buffer.from(json)
    const isJsonOnly = (key === ARGS_KEY && value.toString('latin1') !== IN_BODY) || key === KWARGS_KEY
    return isJsonOnly || !isPlain(value) ? Buffer.from(HIDDEN) : Buffer.from(this.text(value.toString()))
  }

  /** @returns undefined unless it is a JSON object or array; the same text if nothing in it is hidden */
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
    if (typeof value === 'string') return this.#insideText(value, depth)
    if (typeof value !== 'object' || value === null) return value
    if (depth === MAX_DEPTH) return HIDDEN
    const entries = Object.entries(value)
    const shown = entries.map(([key, each]) => [
      key,
      this.#keys.has(key.toLowerCase()) && !Array.isArray(value) ? HIDDEN : this.#inside(each, depth + 1),
    ])
    if (shown.every(([, each], i) => each === entries[i]?.[1])) return value
    return Array.isArray(value) ? shown.map(([, each]) => each) : Object.fromEntries(shown)
  }

  /** JSON within JSON, or words. */
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

/** The keys of `spooler-hide`, each value of which may have several. */
export function keysOf(values: readonly string[]): string[] {
  return values
    .flatMap(value => value.split(','))
    .map(key => key.trim())
    .filter(key => key !== '')
}

/** A text that a person could have written; one that begins like JSON and is none, or looks like a pickle, is not. */
function isPlain(value: Buffer): boolean {
  const text = value.toString()
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point
  return isUtf8(value) && !/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\np\d+\n/.test(text) && !/^\s*[[{]/.test(text)
}
