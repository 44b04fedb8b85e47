import { SpooldError } from '../../../base/errors.js'
import { baseName, displayName, priorityOf, type Ref } from '../../../base/task/ref.js'
import type { Terms } from '../../../base/task/terms.js'
import type { Vars } from '../../../formats/protocol/vars.js'
import type { FileStatus } from '../../../system/calls.js'
import type { Directory } from '../../../system/files/anchored-path.js'
import type { TaskRecord } from '../records.js'
import type { HeldSlot } from '../slot-files.js'
import { type LockedFile, readBody, type SpoolPacket } from '../spool-file.js'
import { pastOf } from '../state-byte.js'

/** A task file that this process has open, in order to claim it. */
export interface OpenFile extends LockedFile {
  /** The state byte; 0 until the packet is read. */
  state: number
  /** The directory of the file, to be released with the claim. */
  readonly held: Directory
  /** The real path of the spool, as text. */
  readonly spool: string
  /** True once no name leads to the file: nobody can see its lock. */
  isNameless: boolean
}

/** A task that this process holds: its file, open and locked, its packet, and what its record says. */
export class ClaimedTask {
  readonly file: OpenFile
  readonly vars: Vars
  /** What the handlers of this worker say of the task. */
  terms: Terms | undefined
  /** Epoch ms. */
  readonly mtimeMs: number
  /** True if the mtime is later than the ctime: somebody set it to a later time, as settling does. */
  readonly isPostponed: boolean
  /** True if the file has other names, too. */
  readonly isLinked: boolean
  /**
   * The later of mtime and the packet's `at`; epoch ms. Whole seconds decide whether the task is due; how long it waited is
   * exact.
   */
  readonly dueAtMs: number
  readonly bodyOffset: number
  readonly bodyBytes: number
  /** The body, once it has been read. */
  body: Buffer | undefined
  record: TaskRecord | undefined
  /** True if the task is delivered at most once: a run that was not settled is never repeated. */
  isOnce = false
  /** @see Claim.findsNoSlot */
  findsNoSlot = false
  /** The slot that the task needs, from its begin on. */
  slot: HeldSlot | undefined
  /** True if a process that inherits the descriptor keeps the claim. */
  isSharable = false
  /** True if other processes may have the descriptor, too, so that closing ours does not end the claim. */
  isShared = false
  /** True once the claim has ended: `fd` is closed, and may be the number of another file. */
  isSettled = false

  constructor(
    file: OpenFile,
    { mtimeMs, ctimeMs, links, size }: FileStatus,
    packet: SpoolPacket,
    dueAtMs: number,
  ) {
    this.file = file
    this.vars = packet.vars
    this.mtimeMs = mtimeMs
    this.isPostponed = mtimeMs > ctimeMs
    this.isLinked = links > 1
    this.dueAtMs = dueAtMs
    this.bodyOffset = packet.bodyOffset
    this.bodyBytes = size - packet.bodyOffset
  }

  get ref(): Ref {
    return this.file.ref
  }

  /** @see Claim.notice */
  get notice(): undefined {
    return undefined
  }

  get name(): string {
    return displayName(baseName(this.ref))
  }

  get path(): string {
    return `${this.file.spool}/${displayName(this.ref)}`
  }

  get priority(): number | null {
    return priorityOf(this.ref)
  }

  get directory(): string {
    const { ref, spool } = this.file
    return ref.includes('/') ? `${spool}/${displayName(ref.slice(0, ref.lastIndexOf('/')))}` : spool
  }

  get mustBeAlone(): boolean {
    return pastOf(this.file.state) === 'died-beside' || this.hasCrashed
  }

  get hasCrashed(): boolean {
    return (this.record?.crashes ?? 0) > 0
  }

  get attempt(): number {
    return (this.record?.attempts ?? 0) + 1
  }

  /** @see Claim.shareLock */
  shareLock(): number | undefined {
    if (!this.isSharable) return undefined
    this.isShared = true
    return this.file.fd
  }

  readBody(): Buffer | undefined {
    if (this.body !== undefined || this.bodyBytes === 0) return this.body
    if (this.isSettled)
      throw new SpooldError('CLAIM_LOST', `the body of ${this.ref} was asked for after its run had ended`)
    this.body = readBody(this.file.fd, this.bodyOffset, this.bodyBytes)
    return this.body
  }
}
