import { type Ref, toFsPath } from '../../../base/task/ref.js'
import { lstatSync } from '../../../system/files/anchored-path.js'
import { type DeadLetter, DeadLetters, deadNameOf } from '../dead-letters.js'
import { findId } from '../store/ids.js'

/** What became of a task, as far as its directory shows. */
type Fate =
  | { readonly kind: 'there'; readonly inode: number }
  /** `letter`: undefined if its reason is missing. */
  | { readonly kind: 'dead'; readonly name: Ref; readonly letter: DeadLetter | undefined }
  /** It ran to SPOOL_OK, was removed or moved, or never existed: none of these leaves a trace. */
  | { readonly kind: 'gone' }

/**
 * @param spool its real path, a byte string
 * @param inode of the task's file, if it was seen: a dead letter is the same file. Otherwise the name has to fit
 */
export function fateOf(spool: string, ref: Ref, inode?: number): Fate {
  const letters = new DeadLetters(spool)
  const dead = deadNameOf(ref)
  const there = dead === undefined ? inodeAt(`${spool}/${ref}`) : undefined
  if (there !== undefined) return { kind: 'there', inode: there }
  const isIt = (name: Ref) => inode === undefined || inodeAt(letters.pathOf(name)) === inode
  const name = closedIsNone(() => [...letters.namesakesOf(dead ?? ref)].findLast(isIt))
  if (name === undefined) return { kind: 'gone' }
  return { kind: 'dead', name, letter: closedIsNone(() => letters.read(name)) }
}

/** The task that was stored under an id; undefined if there is none. */
export function taskOfId(spool: string, id: string): Ref | undefined {
  return closedIsNone(() => findId(spool, id))
}

/** What is in `.spoold` may be closed to us. */
function closedIsNone<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}

function inodeAt(path: string): number | undefined {
  return closedIsNone(() => lstatSync(toFsPath(path)))?.ino
}
