import { SpooldError } from '../../base/errors.js'
import type { Ref } from '../../base/task/ref.js'
import type { ClaimNotice } from '../../base/task/report.js'
import type { Terms } from '../../base/task/terms.js'
import type { Claim } from '../claims.js'
import type { MemoryTask } from './spool.js'

/** A task that a worker in this process holds. */
export class MemoryClaim implements Claim {
  readonly ref: Ref
  readonly task: MemoryTask
  readonly lease: string
  readonly isOnce: boolean
  readonly path: string
  readonly directory = undefined
  isSettled = false

  constructor(ref: Ref, task: MemoryTask, lease: string, isOnce: boolean, path: string) {
    this.ref = ref
    this.task = task
    this.lease = lease
    this.isOnce = isOnce
    this.path = path
  }

  get notice(): ClaimNotice {
    return { name: this.task.name, lease: this.lease }
  }

  get name(): string {
    return this.task.name
  }

  get priority(): number | null {
    return this.task.priority
  }

  get vars() {
    return this.task.vars
  }

  get terms(): Terms | undefined {
    return this.task.terms
  }

  get dueAtMs(): number {
    return this.task.dueAtMs
  }

  get attempt(): number {
    return this.task.attempts + 1
  }

  get bodyBytes(): number {
    return this.task.body?.length ?? 0
  }

  get mustBeAlone(): boolean {
    return this.task.past === 'died-beside' || this.hasCrashed
  }

  get hasCrashed(): boolean {
    return this.task.crashes > 0
  }

  readBody(): Buffer | undefined {
    if (this.isSettled)
      throw new SpooldError('CLAIM_LOST', `the body of ${this.name} was asked for after its run had ended`)
    return this.task.body
  }

  shareLock(): undefined {}
}
