import type { Ref } from '../../base/task/ref.js'
import type { Terms } from '../../base/task/terms.js'
import type { Vars } from '../../formats/protocol/vars.js'

/** What is known of a task in a run. If its process died in that run, and the run counts, this is the state at that time. */
export interface DeadRun {
  readonly ref: Ref
  /** The task's name, for handlers and people. A ref may not contain it. */
  readonly name: string
  /** The packet's pairs. */
  readonly vars: Vars
  /** The terms that the handlers of this worker have for the task (`termsOf` of the options); undefined: none. */
  readonly terms: Terms | undefined
  /** Epoch ms. */
  readonly dueAtMs: number
  /** The number of this run, from 1. */
  readonly attempt: number
  /** 0: no body. */
  readonly bodyBytes: number
  /** Returns the body; undefined if there is none. Valid until the claim is settled. */
  readBody(): Buffer | undefined
}

/** How the process of such a run died, and when the task runs again. */
export interface Death {
  /** How its process died, as its record or its dead letter has it. */
  readonly cause: string
  /** When the task runs again, epoch ms; undefined: never. */
  readonly atMs: number | undefined
}

/** Called by the claim that settles such a run, once, while the body can be read. It does not throw. */
export type TellDeath = (run: DeadRun, death: Death) => void
