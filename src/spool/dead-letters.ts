import { opendir } from 'node:fs/promises'
import { errnoOf } from '../base/errors.js'
import { hasFields } from '../base/json-guard.js'
import { lstatSync, named, readFileSync, unlinkSync } from '../files/anchored-path.js'
import { moveExactly } from '../files/exact-move.js'
import { baseName, type Ref, toFsPath } from '../task/ref.js'
import { createTaskName, STATE_DIRECTORY } from './names.js'
import { jsonNameOf } from './record-name.js'
import type { HeldFile } from './spool-file.js'
import { hasStateRoom, makeStateRoom, stateRoom, writeWhole } from './state-directory.js'

/** Why a task is out of rotation. */
export type BuryReason =
  | 'attempts' // failed as often as it may (spooler-max-attempts)
  | 'crashes' // took its process with it as often as it may (spooler-max-crashes)
  | 'asked' // the handler said so
  | 'outcome-unknown' // at most once, and its runner died in the middle
  | 'malformed' // no spool packet
  | 'incomplete' // shorter than its own header says
  | 'unknown' // its reason was lost; fsck wrote this one

/** Why a dead letter is one: the JSON beside its file. Times are epoch ms. */
export interface DeadLetter {
  /** Its path in the spool, one character a byte. */
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
  /** The handler files that were loaded. */
  readonly handlers: readonly string[]
  readonly host: string
}

const MAX_NAMESAKES = 10_000
const DEAD = `${STATE_DIRECTORY}/dead/`

/** The name of a dead letter whose path below the spool this is; undefined for any other path. */
export function deadNameOf(path: Ref): Ref | undefined {
  return path.startsWith(DEAD) ? path.slice(DEAD.length) : undefined
}

/** The reverse. */
export function deadPathOf(name: Ref): Ref {
  return DEAD + name
}

/** The dead letters of one spool: `.spoold/dead/<path>`, the file as it was, and `.spoold/dead/<path>.json`, why. */
export class DeadLetters {
  readonly #spool: string

  /** @param spool its real path, a byte string */
  constructor(spool: string) {
    this.#spool = spool
  }

  /**
   * Moves a file that the caller holds locked out of the spool. The reason is on disk first: when it ends in between, the
   * task is still in the spool, and the reason without a file is overwritten by the next one, or fixed by fsck.
   *
   * @returns the name it has among the dead; undefined when it is not where it was, and another file may be
   */
  bury(file: HeldFile, letter: DeadLetter): Ref | undefined {
    makeStateRoom(this.#spool, 'dead', letter.ref)
    const name = this.#freeName(letter.ref)
    writeWhole(this.jsonPathOf(name), JSON.stringify(letter), { flush: true })
    if (moveExactly(file, toFsPath(this.pathOf(name)), createTaskName)) return name
    this.forget(name)
    return undefined
  }

  /** undefined when there is none of that name, or its reason cannot be read. */
  read(name: Ref): DeadLetter | undefined {
    try {
      const value: unknown = JSON.parse(readFileSync(toFsPath(this.jsonPathOf(name))))
      return isLetter(value) ? value : undefined
    } catch (error) {
      if (errnoOf(error) === undefined || errnoOf(error) === 'ENOENT') return undefined
      throw error
    }
  }

  /** The name of every file that is there, in directory order. */
  async *names(): AsyncGenerator<Ref> {
    if (hasStateRoom(this.#spool, 'dead')) yield* this.#files('')
  }

  /** Removes the reason of a file that is gone. */
  forget(name: Ref): void {
    try {
      unlinkSync(toFsPath(this.jsonPathOf(name)))
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error
    }
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
      const name = n === 1 ? ref : namesake(ref, `.${n}`)
      if (!exists(this.pathOf(name)) && !isFileOfSomebody(this.jsonPathOf(name))) return name
    }
    throw new Error(`there are ${MAX_NAMESAKES} dead letters named ${ref}`)
  }

  async *#files(prefix: string): AsyncGenerator<Ref> {
    for await (const entry of listDirectory(this.pathOf(prefix))) {
      const name = prefix + entry.name
      if (entry.isDirectory()) yield* this.#files(`${name}/`)
      else if (entry.isFile() && !this.#isJson(name)) yield name
    }
  }

  /** A task's own name may end in .json too; what is inside tells, where there is no file that it would belong to. */
  #isJson(name: Ref): boolean {
    if (!name.endsWith('.json')) return name.endsWith('.tmp')
    return exists(this.pathOf(name.slice(0, -5))) || !isFileOfSomebody(this.pathOf(name))
  }
}

const NAME_BYTES = 255

/** A long name is cut; the letter knows it whole. */
function namesake(ref: Ref, suffix: string): Ref {
  const excess = Math.max(0, baseName(ref).length + suffix.length - NAME_BYTES)
  return ref.slice(0, ref.length - excess) + suffix
}

async function* listDirectory(path: string) {
  try {
    yield* await opendir(toFsPath(path), { encoding: 'latin1' as BufferEncoding })
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw named(error)
  }
}

function exists(path: string): boolean {
  return lstatSync(toFsPath(path)) !== undefined
}

/** There is a file of that path, and it is no reason. */
function isFileOfSomebody(path: string): boolean {
  try {
    const value: unknown = JSON.parse(readFileSync(toFsPath(path)))
    return !isLetter(value)
  } catch (error) {
    return errnoOf(error) !== 'ENOENT'
  }
}

export function isLetter(value: unknown): value is DeadLetter {
  return hasFields(value, LETTER, TOLD)
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
const TOLD = { firstFailureAt: 'time', lastFailureAt: 'time', lastError: 'text' } as const
