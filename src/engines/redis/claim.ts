import { SpooldError } from '../../base/errors.js'
import type { Ref } from '../../base/task/ref.js'
import type { ClaimNotice } from '../../base/task/report.js'
import type { NamedSlots, Terms } from '../../base/task/terms.js'
import type { Claim } from '../claims.js'
import type { Begun, Mark } from './begins.js'
import type { SpoolQueue } from './queues.js'
import { type HeldJob, leaseOf } from './refs.js'
import type { TaskJob, TaskRecord } from './task-job.js'

/** A job whose lock a worker in this process has. */
export class RedisClaim implements Claim {
  readonly ref: Ref
  readonly job: TaskJob
  readonly queue: SpoolQueue
  /** The token of the job's lock. No other claim has it. */
  readonly token: string
  readonly path: string
  readonly terms: Terms | undefined
  readonly isOnce: boolean
  readonly directory = undefined
  readonly notice: ClaimNotice
  /** The record as it will be stored when the run begins or ends. */
  record: TaskRecord
  /** Set if the run was stored as begun when the job was pulled. */
  readonly early: Begun | undefined
  /** Set once the run has begun. */
  mark: Mark | undefined
  fencingToken: number | undefined
  isSettled = false

  constructor(
    ref: Ref,
    own: Pick<RedisClaim, 'job' | 'queue' | 'token' | 'path' | 'terms' | 'isOnce' | 'record' | 'early'>,
  ) {
    this.ref = ref
    this.job = own.job
    this.queue = own.queue
    this.token = own.token
    this.path = own.path
    this.terms = own.terms
    this.isOnce = own.isOnce
    this.record = own.record
    this.early = own.early
    this.notice = { name: own.job.id, lease: leaseOf(this.held) }
  }

  get held(): HeldJob {
    return { id: this.job.id, token: this.token, task: this.queue.task }
  }

  /** The slots of the job's name, if the job takes one. */
  get slots(): NamedSlots | undefined {
    return this.queue.task === undefined ? undefined : this.terms?.slots
  }

  get name(): string {
    return this.job.id
  }

  get priority(): number | null {
    return this.job.priority
  }

  get vars() {
    return this.job.vars
  }

  get dueAtMs(): number {
    return this.job.dueAtMs
  }

  get attempt(): number {
    return this.record.attempts + 1
  }

  get bodyBytes(): number {
    return this.job.body?.length ?? 0
  }

  get mustBeAlone(): boolean {
    return this.record.past === 'died-beside' || this.hasCrashed
  }

  get hasCrashed(): boolean {
    return this.record.crashes > 0
  }

  readBody(): Buffer | undefined {
    if (this.isSettled)
      throw new SpooldError('CLAIM_LOST', `the body of ${this.name} was asked for after its run had ended`)
    return this.job.body
  }

  shareLock(): undefined {}
}
