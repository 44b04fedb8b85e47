/** The year 2400, which ext4, XFS and tmpfs have; else what 32 bits hold, in 2038. */
export const HELD_UNTIL_MS = [Date.UTC(2400, 0, 1), (2 ** 31 - 1) * 1000]

/** A task that is held without a record, for which there was no room, has a time from here on, with its own on top. */
const HELD_FROM_MS = Date.UTC(2300, 0, 1)

export function heldTimeFor(mtimeMs: number): number {
  return HELD_FROM_MS + mtimeMs
}

/** The mtime that a file had before it was held without a record. undefined: it is not held so. */
export function heldMtimeOf(mtimeMs: number): number | undefined {
  const [recordedMs = 0] = HELD_UNTIL_MS
  return mtimeMs >= HELD_FROM_MS && mtimeMs < recordedMs ? mtimeMs - HELD_FROM_MS : undefined
}
