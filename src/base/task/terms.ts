import type { Delivery } from './delivery.js'
import type { ParkReason } from './report.js'
import type { RetryPolicy } from './retry-policy.js'
import type { NamedSlots } from './slots.js'

/** What the handlers of a worker say of one task before it runs. It goes before the options. */
export interface Terms {
  /** The task's name as in its packet; for people, who also have that of its file. */
  readonly name: string
  /** What comes before the name that its code knows; undefined: nothing. */
  readonly namespace?: string
  /** A packet may still name its own. */
  readonly delivery: Delivery
  /** What a handler asks for in an answer goes before it. */
  readonly policy: Partial<RetryPolicy>
  /** It needs one of them to run; undefined: none. */
  readonly slots?: NamedSlots
}

/** `unknown-name`: no handler of this worker takes it, so it is to be parked. Undefined: the options apply. */
export type TermsOrPark = Terms | Extract<ParkReason, 'unknown-name'> | undefined
