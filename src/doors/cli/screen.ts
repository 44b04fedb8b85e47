import { isatty, WriteStream } from 'node:tty'

/** The abilities of standard output. */
export interface Screen {
  /** The width of the terminal; undefined if it is a pipe or a file, whose lines may have any length. */
  readonly columns: number | undefined
  readonly hasColor: boolean
}

const STDOUT = 1
/** The width of a terminal that does not know its size, such as a serial line. */
const USUAL_COLUMNS = 80

type Environment = Readonly<Record<string, string | undefined>>

/** Returns the abilities of standard output. COLUMNS overrides the size that the terminal reports. */
export function screenOf(env: Environment): Screen {
  if (!isatty(STDOUT))
    return { columns: undefined, hasColor: env.FORCE_COLOR !== undefined && hasColors(env) }
  const wanted = Number(env.COLUMNS)
  const columns = wanted > 0 ? wanted : (process.stdout.columns ?? 0)
  return { columns: columns > 0 ? columns : USUAL_COLUMNS, hasColor: hasColors(env) }
}

/** True if Node's rules for TERM and FORCE_COLOR allow colors. Any NO_COLOR that is not empty has precedence (no-color.org). */
function hasColors({ NO_COLOR = '', ...env }: Environment): boolean {
  return NO_COLOR === '' && WriteStream.prototype.hasColors(16, env)
}
