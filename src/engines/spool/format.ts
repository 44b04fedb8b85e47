import { toByteString, toFsPath } from '../../base/task/ref.js'
import { readFileSync } from '../../system/files/anchored-path.js'
import { makeState, writeWhole } from './state-directory.js'

/** The version of spoold's files in a spool. 1: spoold 0.1.0, which wrote no number; 2: see docs/spool-format.md. */
const FORMAT = 2

/**
 * Adds our format version to those already used in the spool, one per line, in `.spoold/format`. It is meant for people
 * and for future versions. Nothing depends on it, so a failed write does not prevent tasks from running.
 *
 * @param spool its real path
 */
export function noteFormat(spool: string): void {
  try {
    const path = `${makeState(toByteString(spool))}/format`
    const seen = read(path)
    if (seen.includes(String(FORMAT))) return
    writeWhole(path, `${[...seen, FORMAT].join('\n')}\n`, { flush: false })
  } catch {}
}

function read(path: string): string[] {
  try {
    return readFileSync(toFsPath(path)).split('\n').filter(Boolean)
  } catch {
    return []
  }
}
