import { readFileSync } from '../files/anchored-path.js'
import { toByteString, toFsPath } from '../task/ref.js'
import { makeState, writeWhole } from './state-directory.js'

/** Of what spoold keeps in a spool: 1 is that of spoold 0.1.0, which wrote no number; 2 is that of docs/spool-format.md. */
const FORMAT = 2

/**
 * Adds our number to those of the rules by which a spool was run, one a line, in `.spoold/format`. For people, and for
 * versions to come: nothing depends on it, and a disk that takes it not keeps nobody from running tasks.
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
