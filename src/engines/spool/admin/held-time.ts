/** The mtime of a held task: the year 2400 (ext4, XFS, tmpfs) or, failing that, the end of 32-bit time in 2038. */
export const HELD_UNTIL_MS = [Date.UTC(2400, 0, 1), (2 ** 31 - 1) * 1000]

/** If a held task's record could not be written, its mtime is this plus the original mtime. */
const HELD_FROM_MS = Date.UTC(2300, 0, 1)

export function heldTimeFor(mtimeMs: number): number {
  return HELD_FROM_MS + mtimeMs
}

/** The original mtime of a task held without a record; undefined if it is not held that way. */
export function heldMtimeOf(mtimeMs: number): number | undefined {
  const [recordedMs = 0] = HELD_UNTIL_MS
  return mtimeMs >= HELD_FROM_MS && mtimeMs < recordedMs ? mtimeMs - HELD_FROM_MS : undefined
}
