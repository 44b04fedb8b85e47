/** Where a setting was written, for messages. */
export interface Where {
  /** The file as named, "command line" or "environment NAME". */
  readonly file: string
  /** From 1; undefined outside of files. */
  readonly line?: number
}

/** One `key = value` as it was read: nothing is known yet about either. */
export interface Setting {
  readonly key: string
  readonly value: string
  readonly where: Where
  /** Its placeholders stay as they are: it acted when it was read, or it comes from an `inherit`ed file. */
  readonly isLiteral?: boolean
  /** `set-placeholder` made it: other values may refer to it, and it never is an option. */
  readonly isPlaceholder?: boolean
  /** Of an `inherit`: the files and sections that brought it, each read for the one before. */
  readonly broughtBy?: readonly string[]
}

export interface Problem {
  readonly severity: 'error' | 'warning'
  readonly where: Where
  /** What was expected and what was got. */
  readonly message: string
}

/** Collects everything that is wrong, so that all of it can be told at once. */
export class Problems {
  /** By their text: what a loop repeats is told once. */
  readonly #found = new Map<string, Problem>()

  error(where: Where, message: string): void {
    this.#add({ severity: 'error', where, message })
  }

  warning(where: Where, message: string): void {
    this.#add({ severity: 'warning', where, message })
  }

  /** File by file in the order of their first problem, inside each by line. */
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
