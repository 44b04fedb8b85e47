import { hostname } from 'node:os'
import { errnoOf, quietly } from '../../base/errors.js'
import { hasFields } from '../../base/json-guard.js'
import { epochNowMs } from '../../base/own-clock.js'
import type { BuryReason } from '../../base/task/outcome.js'
import { baseName, type Ref, toFsPath } from '../../base/task/ref.js'
import { lstatSync, placeOf, readFileSync } from '../../system/files/anchored-path.js'
import { isInPlace, moveExactly } from '../../system/files/exact-move.js'
import { createTaskName, STATE_DIRECTORY } from './names.js'
import { Records } from './records.js'
import { filesInRoom } from './scan.js'
import type { LockedFile } from './spool-file.js'
import { ONCE, readState, writeState } from './state-byte.js'
import {
  jsonNameOf,
  makeStateRoom,
  readJson,
  removeIfThere,
  stateRoom,
  writeWhole,
} from './state-directory.js'

/** Why a task is a dead letter: the JSON next to its file. Times are epoch ms. */
export interface DeadLetter {
  /** The task's path in the spool; one character per byte. */
  readonly ref: Ref
  readonly reason: BuryReason
  /** A sentence for people. */
  readonly detail: string
  readonly buriedAt: number
  readonly attempts: number
  readonly crashes: number
  readonly firstFailureAt?: number
  readonly lastFailureAt?: number
  readonly lastError?: string
  /** The loaded handler files. */
  readonly handlers: readonly string[]
  readonly host: string
}

type Failures = Pick<DeadLetter, 'attempts' | 'crashes' | 'firstFailureAt' | 'lastFailureAt' | 'lastError'>

/** Returns what a record and a dead letter both say. */
export function failuresIn({
  attempts = 0,
  crashes = 0,
  firstFailureAt,
  lastFailureAt,
  lastError,
}: Partial<Failures>): Failures {
  return {
    attempts,
    crashes,
    ...(firstFailureAt === undefined ? {} : { firstFailureAt }),
    ...(lastFailureAt === undefined ? {} : { lastFailureAt }),
    ...(lastError === undefined ? {} : { lastError }),
  }
}

/** Returns the dead letter of a task that is buried now. */
export function letterOf(
  ref: Ref,
  reason: BuryReason,
  detail: string,
  record: Partial<Failures> | undefined,
  handlers: readonly string[],
): DeadLetter {
  const failures = failuresIn(record ?? {})
  return { ref, reason, detail, buriedAt: epochNowMs(), ...failures, handlers, host: hostname() }
}

/** One name has fewer dead letters than this. */
export const MAX_NAMESAKES = 10_000
const DEAD = `${STATE_DIRECTORY}/dead/`

/** Returns the name of the dead letter at a path below the spool; undefined for any other path. */
export function deadNameOf(path: Ref): Ref | undefined {
  return path.startsWith(DEAD) ? path.slice(DEAD.length) : undefined
}

/** The inverse of `deadNameOf`. */
export function deadPathOf(name: Ref): Ref {
  return DEAD + name
}

/** The dead letters of one spool: `.spoold/dead/<path>` is the unchanged file, `.spoold/dead/<path>.json` the reason. */
export class DeadLetters {
  readonly #spool: string

  /** @param spool its real path, a byte string */
  constructor(spool: string) {
    this.#spool = spool
  }

  /**
   * Moves a file that the caller has locked out of the spool. Writes the reason to disk first: if the process dies in
   * between, the task is still in the spool, and a later burial overwrites the orphaned reason, or fsck repairs it.
   *
   * @returns false if the file is no longer at its path
   * @throws if it cannot be moved; nothing has changed then
   */
  bury(file: LockedFile, letter: DeadLetter): boolean {
    if (!isInPlace(file)) return false
    makeStateRoom(this.#spool, 'dead', letter.ref)
    const name = this.#freeName(letter.ref)
    writeWhole(this.jsonPathOf(name), JSON.stringify(letter), { flush: true })
    const isMoved = moveExactly(file, placeOf(this.pathOf(name)), createTaskName)
    if (isMoved) this.#tidyUp(file)
    else this.forget(name)
    return isMoved
  }

  /**
   * Resets the file's state byte and removes the task's record. The file is a dead letter, whatever the disk refuses now:
   * neither a mark nor a record without a task does any harm.
   */
  #tidyUp({ ref, fd, state }: LockedFile): void {
    // the byte becomes 0 again, whatever a run has marked; not before the move, or a kill in between would let the task run
    // once more. A power failure may lose the move but not the byte, so a task that may run only once keeps its mark, which
    // requeue removes
    quietly(() => {
      if (state !== undefined && (readState(fd) & ONCE) === 0) writeState(fd, 0)
    })
    quietly(() => new Records(this.#spool).remove(ref))
  }

  /** Returns the reason; undefined if there is no dead letter of that name, or if its reason is not valid. */
  read(name: Ref): DeadLetter | undefined {
    const value = readJson(this.jsonPathOf(name))
    return isLetter(value) ? value : undefined
  }

  /** Yields the names of all dead letters, in directory order. */
  async *names(): AsyncGenerator<Ref> {
    for await (const name of filesInRoom(this.#spool, 'dead')) if (!this.#isJson(name)) yield name
  }

  /** Yields the names of the dead letters of one task name, the earliest first. */
  *namesakesOf(ref: Ref): Generator<Ref> {
    for (let n = 1; n < MAX_NAMESAKES; n++) {
      const name = nameOfNth(ref, n)
      if (!exists(this.pathOf(name))) return
      yield name
    }
  }

  /** Removes the reason of a removed file. */
  forget(name: Ref): void {
    removeIfThere(this.jsonPathOf(name))
  }

  /** A byte string. */
  pathOf(name: Ref): string {
    return `${stateRoom(this.#spool, 'dead')}/${name}`
  }

  /** A byte string. */
  jsonPathOf(name: Ref): string {
    return `${stateRoom(this.#spool, 'dead')}/${jsonNameOf(name)}`
  }

  #freeName(ref: Ref): Ref {
    for (let n = 1; n < MAX_NAMESAKES; n++) {
      const name = nameOfNth(ref, n)
      if (!exists(this.pathOf(name)) && !isFileOfSomebody(this.jsonPathOf(name))) return name
    }
    throw new Error(`there are ${MAX_NAMESAKES} dead letters named ${ref}`)
  }

  /**
   * True if the file is not a dead letter but its reason, or an unfinished one (`.tmp`). A task's own name may end in .json
   * too. If no file fits such a name, its content decides.
   */
  #isJson(name: Ref): boolean {
    if (!name.endsWith('.json')) return name.endsWith('.tmp')
    return exists(this.pathOf(name.slice(0, -5))) || !isFileOfSomebody(this.pathOf(name))
  }
}

function nameOfNth(ref: Ref, n: number): Ref {
  return n === 1 ? ref : namesake(ref, `.${n}`)
}

const NAME_BYTES = 255

/** Appends the suffix, and cuts a name that would be too long; the letter contains the full one. */
function namesake(ref: Ref, suffix: string): Ref {
  const excess = Math.max(0, baseName(ref).length + suffix.length - NAME_BYTES)
  return ref.slice(0, ref.length - excess) + suffix
}

function exists(path: string): boolean {
  return lstatSync(toFsPath(path)) !== undefined
}

/** True if there is a file at the path that is not a reason. */
function isFileOfSomebody(path: string): boolean {
  try {
    const value: unknown = JSON.parse(readFileSync(toFsPath(path)))
    return !isLetter(value)
  } catch (error) {
    return errnoOf(error) !== 'ENOENT'
  }
}

export function isLetter(value: unknown): value is DeadLetter {
  return hasFields(value, LETTER, OPTIONAL)
}

const LETTER = {
  ref: 'text',
  reason: 'text',
  detail: 'text',
  buriedAt: 'time',
  attempts: 'count',
  crashes: 'count',
  handlers: 'texts',
  host: 'text',
} as const
const OPTIONAL = { firstFailureAt: 'time', lastFailureAt: 'time', lastError: 'text' } as const
