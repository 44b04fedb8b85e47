/** Rows that are laid out together; their widths hold for all that follow. */
const ROWS_PER_BLOCK = 1000

/**
 * Columns for people, line by line: each as wide as its widest cell so far, numbers (cells in `right`) to the right. Of a
 * long table the first thousand rows are read before the first line comes, so it is never held as a whole.
 */
export function* textTable(
  header: readonly string[],
  rows: Iterable<readonly string[]>,
  right: readonly string[] = [],
): Generator<string> {
  const widths = header.map(() => 0)
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) =>
        right.includes(header[i] ?? '') ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0),
      )
      .join('  ')
      .trimEnd()
  for (const block of blocks(header, rows)) {
    for (const [i, width] of widths.entries())
      widths[i] = Math.max(width, ...block.map(row => (row[i] ?? '').length))
    for (const row of block) yield line(row)
  }
}

function* blocks(header: readonly string[], rows: Iterable<readonly string[]>) {
  let block = [header]
  for (const row of rows) {
    block.push(row)
    if (block.length < ROWS_PER_BLOCK) continue
    yield block
    block = []
  }
  if (block.length > 0) yield block
}

/** `3 s`, `5 m`, `2 h`, `4 d`: one unit is enough to see. */
export function shortDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} m`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`
}
