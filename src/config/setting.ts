/** Where a setting was written, for messages. */
export interface Where {
  /** The file as named, "command line" or "environment". */
  readonly file: string
  /** From 1; undefined outside of files. */
  readonly line?: number
}

/** One `key = value` as it was read: nothing is known yet about either. */
export interface Setting {
  readonly key: string
  readonly value: string
  readonly where: Where
  /** It comes from an `inherit`ed file, whose values uWSGI never expands. */
  readonly isLiteral?: boolean
}

export interface Problem {
  readonly severity: 'error' | 'warning'
  readonly where: Where
  /** What was expected and what was got. */
  readonly message: string
}

/** Collects everything that is wrong, so that all of it can be told at once. */
export class Problems {
  readonly list: Problem[] = []

  error(where: Where, message: string): void {
    this.list.push({ severity: 'error', where, message })
  }

  warning(where: Where, message: string): void {
    this.list.push({ severity: 'warning', where, message })
  }

  get errors(): Problem[] {
    return this.list.filter(problem => problem.severity === 'error')
  }

  get warnings(): Problem[] {
    return this.list.filter(problem => problem.severity === 'warning')
  }
}

export function formatWhere({ file, line }: Where): string {
  return line === undefined ? file : `${file}:${line}`
}

/** `app.ini:7: error: …` */
export function formatProblem({ severity, where, message }: Problem): string {
  return `${formatWhere(where)}: ${severity}: ${message}`
}
