/** Where a setting was written, for messages. */
export interface Where {
  /** The file as named, "command line" or "environment NAME". */
  readonly file: string
  /** From 1; undefined outside files. */
  readonly line?: number
}

/** One `key = value` as it was read, not yet interpreted. */
export interface Setting {
  readonly key: string
  readonly value: string
  readonly where: Where
  /**
   * True if the placeholders in the value are not expanded: the setting acted when it was read, or is from an `inherit`ed file.
   */
  readonly isLiteral?: boolean
  /** True if `set-placeholder` made the setting: other values may refer to it, but it is not an option. */
  readonly isPlaceholder?: boolean
  /** For an `inherit`: the files and sections that led to it, each read by the previous one. */
  readonly broughtBy?: readonly string[]
}

interface Problem {
  readonly severity: 'error' | 'warning'
  readonly where: Where
  /** What was expected, and what was given. */
  readonly message: string
}

/** Collects all problems, so that they can be reported together. */
export class Problems {
  /** Keyed by text: a problem that a loop repeats is reported once. */
  readonly #found = new Map<string, Problem>()

  error(where: Where, message: string): void {
    this.#add({ severity: 'error', where, message })
  }

  warning(where: Where, message: string): void {
    this.#add({ severity: 'warning', where, message })
  }

  /** The problems by file, in the order of their first problems, and by line within each file. */
  get list(): Problem[] {
    const problems = [...this.#found.values()]
    const files = [...new Set(problems.map(({ where }) => where.file))]
    const rank = new Map(files.map((file, i) => [file, i]))
    return problems.sort(
      ({ where: a }, { where: b }) =>
        (rank.get(a.file) ?? 0) - (rank.get(b.file) ?? 0) || (a.line ?? 0) - (b.line ?? 0),
    )
  }

  get errors(): Problem[] {
    return this.list.filter(({ severity }) => severity === 'error')
  }

  get warnings(): Problem[] {
    return this.list.filter(({ severity }) => severity === 'warning')
  }

  #add(problem: Problem): void {
    const text = formatProblem(problem)
    if (!this.#found.has(text)) this.#found.set(text, problem)
  }
}

export function formatWhere({ file, line }: Where): string {
  return line === undefined ? file : `${file}:${line}`
}

/** `app.ini:7: error: …` */
export function formatProblem({ severity, where, message }: Problem): string {
  return `${formatWhere(where)}: ${severity}: ${message}`
}

/** A byte that is not UTF-8 is a lone surrogate, which no text has: 0xE9 is U+DCE9. Python does the same. */
const SURROGATE = 0xdc00
/** Splits a text into the parts that are UTF-8 and, at odd places, the bytes that are not. */
const UNREAD = /([\udc80-\udcff])/u

/** Returns the character that stands for a byte that is not UTF-8. @param byte as a character of Latin-1 */
export function unread(byte: string): string {
  return String.fromCharCode(SURROGATE + byte.charCodeAt(0))
}

function byteOf(character: string): number {
  return character.charCodeAt(0) - SURROGATE
}

/**
 * True if a setting that spoold obeys was UTF-8; reports it otherwise. uWSGI takes the bytes as they are. Read in another
 * encoding, they would name another file, and the tasks would never run.
 */
export function isRead({ key, value, where }: Setting, problems: Problems): boolean {
  const parts = `${key} = ${value}`.split(UNREAD)
  if (parts.length === 1) return true
  const shown = parts.map((part, i) => (i % 2 === 0 ? part : `\\x${byteOf(part).toString(16)}`)).join('')
  problems.error(
    where,
    `expected UTF-8, got ${shown}: write the line in UTF-8, and rename the file that it names, if it names one`,
  )
  return false
}

/** Returns the bytes of a value as they are in the file, for code that takes bytes. */
export function bytesOfValue(value: string): Buffer {
  const parts = value.split(UNREAD)
  return Buffer.concat(parts.map((part, i) => (i % 2 === 0 ? Buffer.from(part) : Buffer.of(byteOf(part)))))
}
