import type { Ref } from '../../base/task/ref.js'
import type { Terms } from '../../base/task/terms.js'
import type { Vars } from '../../formats/protocol/vars.js'

/** A task whose process died in a run that counts, as it was in that run. Its fields are those of a claim. */
export interface DeadRun {
  readonly ref: Ref
  readonly name: string
  readonly vars: Vars
  readonly terms: Terms | undefined
  readonly dueAtMs: number
  readonly attempt: number
  readonly bodyBytes: number
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
