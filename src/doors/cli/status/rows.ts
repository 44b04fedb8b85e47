const WIDTH = 80
/** The width of the labels, left of the first column of text. */
export const LABEL = 12

export function clipped(line: string): string {
  return line.length > WIDTH ? `${line.slice(0, WIDTH - 1)}…` : line
}

export function* row(label: string, parts: readonly string[]): Generator<string> {
  yield* wrapped(`  ${label}`.padEnd(LABEL + 2), parts)
}

/** Joins the parts with commas, and begins another line where one would be too long. */
export function* wrapped(label: string, parts: readonly string[]): Generator<string> {
  let line = label
  const indent = ' '.repeat(Math.min(label.length, LABEL + 2))
  for (const [i, part] of parts.entries()) {
    const text = i < parts.length - 1 ? `${part},` : part
    if (i > 0 && line.length + 1 + text.length > WIDTH) {
      yield line
      line = `${indent}${text}`
    } else line += i === 0 && line.endsWith(' ') ? text : ` ${text}`
  }
  yield line
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']

export function bytes(number: number): string {
  const power = number < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(number) / 3))
  const value = number / 1000 ** power
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${UNITS[power]}`
}
