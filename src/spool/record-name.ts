import { crypto } from '../base/crypto.js'
import type { Ref } from '../task/ref.js'

/** A file name has 255 bytes at most, and ours are longer than the task's. */
const NAME_BYTES = 200

/** The path of a task's JSON below `.spoold/records` or `.spoold/dead`, a byte string. */
export function jsonNameOf(ref: Ref): string {
  return `${isNamedInFull(ref) ? ref : crypto().createHash('sha1').update(ref, 'latin1').digest('hex')}.json`
}

/** Else the JSON itself has to say whose it is. */
export function isNamedInFull(ref: Ref): boolean {
  return ref.length <= NAME_BYTES
}
