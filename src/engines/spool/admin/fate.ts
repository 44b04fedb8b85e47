import { opendirSync } from 'node:fs'
import { quietly } from '../../../base/errors.js'
import { type Ref, toFsPath } from '../../../base/task/ref.js'
import { lstatSync } from '../../../system/files/anchored-path.js'
import { type DeadLetter, DeadLetters, deadNameOf, deadPathOf } from '../dead-letters.js'
import { isPriorityDirectory } from '../names.js'

/** What became of a task, as far as its directory shows. */
type Fate =
  | { readonly kind: 'there'; readonly inode: number }
  /** `letter`: undefined if its reason is missing. */
  | { readonly kind: 'dead'; readonly name: Ref; readonly letter: DeadLetter | undefined }
  /** It ran to SPOOL_OK, was removed or moved, or never existed: none of these leaves a trace. */
  | { readonly kind: 'gone' }

/**
 * Returns what became of a task.
 *
 * @param spool its real path, a byte string
 * @param inode of the task's file, if it was seen: only a dead letter with this inode is the task's. Without it, the name
 *   decides
 * @throws the file system's error if it does not say whether the task is there
 */
export function fateOf(spool: string, ref: Ref, inode?: number): Fate {
  const letters = new DeadLetters(spool)
  const dead = deadNameOf(ref)
  const there = dead === undefined ? inodeAt(`${spool}/${ref}`) : undefined
  if (there !== undefined) return { kind: 'there', inode: there }
  const isIt = (name: Ref) => inode === undefined || inodeAt(letters.pathOf(name)) === inode
  const name = quietly(() => [...letters.namesakesOf(dead ?? ref)].findLast(isIt)) // the directory may be closed to us
  if (name === undefined) return { kind: 'gone' }
  return { kind: 'dead', name, letter: quietly(() => letters.read(name)) }
}

const MAX_NAME_BYTES = 255

/**
 * True if this text can be the path of a task file or of a dead letter in a spool. Such a path leads neither out of the
 * spool nor into any other directory of it.
 */
export function isTaskPath(text: string): boolean {
  const [name = '', ...above] = (deadNameOf(text) ?? text).split('/').reverse()
  return (
    /^(?!\.{1,2}$)[^\0]+$/.test(name) && name.length <= MAX_NAME_BYTES && above.every(isPriorityDirectory)
  )
}

/** Finds where else the tasks of a name are: log lines have the name alone, and a dead letter has left its place. */
export class Namesakes {
  readonly #spool: string
  readonly #letters: DeadLetters
  /**
   * The priorities below each directory. A directory is listed only once: of thousands of paths that a shell has expanded,
   * thousands may be gone by now.
   */
  readonly #priorities = new Map<string, readonly string[]>()

  /** @param spool its real path, a byte string */
  constructor(spool: string) {
    this.#spool = spool
    this.#letters = new DeadLetters(spool)
  }

  /** Returns the refs of tasks with this name that may still run, or else the latest dead letter of each place. */
  of(name: Ref): Ref[] {
    if (deadNameOf(name) !== undefined) return []
    const inAll = (directory: string) =>
      name.includes('/') ? [] : this.#prioritiesIn(directory).map(each => `${each}/${name}`)
    const alive = inAll('').filter(ref => quietly(() => inodeAt(`${this.#spool}/${ref}`)) !== undefined)
    if (alive.length > 0) return alive
    const latest = (each: Ref) => quietly(() => [...this.#letters.namesakesOf(each)].at(-1)) ?? []
    return [name, ...inAll(deadPathOf(''))].flatMap(latest).map(deadPathOf)
  }

  #prioritiesIn(below: string): readonly string[] {
    const listed = this.#priorities.get(below) ?? quietly(() => priorities(`${this.#spool}/${below}`)) ?? []
    this.#priorities.set(below, listed)
    return listed
  }
}

function priorities(directory: string): string[] {
  if (lstatSync(toFsPath(directory))?.isDirectory() !== true) return []
  const names: string[] = []
  const listing = opendirSync(toFsPath(directory), { bufferSize: 2048, encoding: 'latin1' })
  for (let entry = listing.readSync(); entry !== null; entry = listing.readSync())
    if (entry.isDirectory() && isPriorityDirectory(entry.name)) names.push(entry.name)
  listing.closeSync()
  return names
}

function inodeAt(path: string): number | undefined {
  return lstatSync(toFsPath(path))?.ino
}
