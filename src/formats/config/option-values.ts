import type { Problems, Setting, Where } from '../ini/setting.js'
import { coerce } from './coerce.js'
import { OPTION_TABLE, type OptionSpec, propertyName } from './option-table.js'

/** Where each option, or each value of a list, was written. An option without an entry has its default. */
export type Origins = ReadonlyMap<string, readonly Where[]>

/** A value of a repeatable option that names handlers. */
export type HandlerSetting = readonly [option: string, value: string]

type Filter = (spec: OptionSpec) => boolean

/** The typed options that were written in one place. */
export class OptionValues {
  readonly #values = new Map<string, unknown>()
  readonly #origins = new Map<string, Where[]>()
  readonly #handlers: HandlerSetting[] = []
  /** The name under which each option was written. */
  readonly keys = new Map<string, string>()

  get origins(): Origins {
    return this.#origins
  }

  /** The values of options that name handlers, in the order in which they were written. */
  get handlers(): readonly HandlerSetting[] {
    return this.#handlers
  }

  get nameHandlers(): boolean {
    return OPTION_TABLE.some((spec: OptionSpec) => spec.givesHandlers && this.#values.has(spec.name))
  }

  get(name: string): unknown {
    return this.#values.get(name)
  }

  /**
   * Adds a value: to a list, or in place of an earlier value.
   *
   * @param setting its key is what messages call the option
   * @returns false if the setting was left out; the reason is in `problems`
   */
  take(spec: OptionSpec, { key, value: text, where }: Setting, problems: Problems): boolean {
    const { name, isList } = spec
    if (isList && text === '' && spec.group === 'handlers') {
      problems.warning(where, `${key}: expected ${spec.value}, got nothing; it is left out`)
      return false
    }
    const { value, error, warning } = coerce(spec, text)
    if (error !== undefined) {
      problems.error(where, `${key}: ${error}`)
      return false
    }
    if (warning !== undefined) problems.warning(where, `${key}: ${warning}`)
    if (!isList) this.#warnIfAgain(name, key, where, problems)
    const before = this.#values.get(name)
    this.#values.set(name, isList ? [...(Array.isArray(before) ? before : []), value] : value)
    this.#origins.set(name, isList ? [...(this.#origins.get(name) ?? []), where] : [where])
    this.keys.set(name, key)
    if (spec.givesHandlers && isList) this.#handlers.push([name, text])
    return true
  }

  /** Returns the given values of the wanted options, by their property names. */
  typed(isWanted: Filter): object {
    return propertiesOf(
      spec => isWanted(spec) && this.#values.has(spec.name),
      ({ name }) => this.#values.get(name),
    )
  }

  /** Warns if the same file gives an option twice. An earlier file may give a default, so it does not count. */
  #warnIfAgain(name: string, key: string, where: Where, problems: Problems): void {
    const [earlier] = this.#origins.get(name) ?? []
    if (earlier === undefined || earlier.file !== where.file) return
    if ((earlier.line ?? 0) < (where.line ?? 0))
      problems.warning(where, `${key} is given again: this value counts, not that of line ${earlier.line}`)
  }
}

/** Returns the defaults of the wanted options, by their property names. */
export function defaultsOf(isWanted: Filter): object {
  return propertiesOf(isWanted, ({ isList, kind, fallback }) => {
    if (isList) return []
    return kind === 'seconds' && typeof fallback === 'number' ? fallback * 1000 : fallback
  })
}

function propertiesOf(isWanted: Filter, read: (spec: OptionSpec) => unknown): object {
  const wanted = OPTION_TABLE.filter((spec: OptionSpec) => spec.kind !== 'directive' && isWanted(spec))
  return Object.fromEntries(wanted.map((spec: OptionSpec) => [propertyName(spec), read(spec)]))
}
