import { crypto } from '../../base/crypto.js'
import type { Ref } from '../../base/task/ref.js'

/** File names are limited to 255 bytes, and ours are longer than the task's. */
const NAME_BYTES = 200

/** The path of a task's JSON below `.spoold/records` or `.spoold/dead`, a byte string. */
export function jsonNameOf(ref: Ref): string {
  return `${isNamedInFull(ref) ? ref : crypto().createHash('sha1').update(ref, 'latin1').digest('hex')}.json`
}

/** If false, the JSON itself has to name its task. */
export function isNamedInFull(ref: Ref): boolean {
  return ref.length <= NAME_BYTES
}
