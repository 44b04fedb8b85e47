import { SpooldError } from '../../../base/errors.js'
import { baseName, displayName, priorityOf, type Ref } from '../../../base/task/ref.js'
import type { TaskRecord } from '../records.js'
import type { HeldSlot } from '../slot-files.js'
import { readBody } from '../spool-file.js'
import { pastOf } from '../state-byte.js'
import type { ClaimedFile } from './claim.js'

/** A claimed task file, with what its record says. */
export class ClaimedTask {
  readonly file: ClaimedFile
  readonly record: TaskRecord | undefined
  /** True if the task is delivered at most once: a run that was not settled is never repeated. */
  readonly isOnce: boolean
  #body: Buffer | undefined
  /** True once the claim has ended: `fd` is closed, and may be the number of another file. */
  isSettled = false
  /** True if other processes may have the descriptor, too, so that closing ours does not end the claim. */
  isShared = false
  /** @see Claim.findsNoSlot */
  findsNoSlot = false
  /** The slot that the task needs, from its begin on. */
  slot: HeldSlot | undefined
  readonly #isSharable: boolean
  readonly #spool: string

  /** @param spool its real path, as text */
  constructor(
    file: ClaimedFile,
    record: TaskRecord | undefined,
    isOnce: boolean,
    isSharable: boolean,
    spool: string,
  ) {
    this.#isSharable = isSharable
    this.#spool = spool
    this.file = file
    this.record = record
    this.isOnce = isOnce
    this.#body = file.body
  }

  get ref(): Ref {
    return this.file.ref
  }

  /** @see Claim.notice */
  get notice(): undefined {
    return undefined
  }

  get name(): string {
    return displayName(baseName(this.file.ref))
  }

  get path(): string {
    return `${this.#spool}/${displayName(this.file.ref)}`
  }

  get priority(): number | null {
    return priorityOf(this.file.ref)
  }

  get directory(): string {
    const { ref } = this.file
    return ref.includes('/')
      ? `${this.#spool}/${displayName(ref.slice(0, ref.lastIndexOf('/')))}`
      : this.#spool
  }

  get mustBeAlone(): boolean {
    return pastOf(this.file.state) === 'died-beside' || this.hasCrashed
  }

  get hasCrashed(): boolean {
    return (this.record?.crashes ?? 0) > 0
  }

  get terms() {
    return this.file.terms
  }

  get vars() {
    return this.file.vars
  }

  get dueAtMs(): number {
    return this.file.dueAtMs
  }

  get attempt(): number {
    return (this.record?.attempts ?? 0) + 1
  }

  get bodyBytes(): number {
    return this.file.bodyBytes
  }

  /** @see Claim.shareLock */
  shareLock(): number | undefined {
    if (!this.#isSharable) return undefined
    this.isShared = true
    return this.file.fd
  }

  readBody(): Buffer | undefined {
    if (this.#body !== undefined || this.file.bodyBytes === 0) return this.#body
    if (this.isSettled)
      throw new SpooldError('CLAIM_LOST', `the body of ${this.ref} was asked for after its run had ended`)
    this.#body = readBody(this.file.fd, this.file.bodyOffset, this.file.bodyBytes)
    return this.#body
  }
}
