/** Columns for people: each as wide as its widest cell, numbers (cells in `right`) to the right. */
export function textTable(
  header: readonly string[],
  rows: ReadonlyArray<readonly string[]>,
  right: readonly string[] = [],
): string {
  const widths = header.map((title, i) => Math.max(title.length, ...rows.map(row => (row[i] ?? '').length)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) =>
        right.includes(header[i] ?? '') ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0),
      )
      .join('  ')
      .trimEnd()
  return [header, ...rows].map(line).join('\n')
}

/** `3 s`, `5 m`, `2 h`, `4 d`: one unit is enough to see. */
export function shortDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} m`
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`
}
