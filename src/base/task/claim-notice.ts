import type { TaskName } from './ref.js'

/** What the master has to know of a claim before its task begins. */
export interface ClaimNotice {
  /** The ref does not contain it. */
  readonly name: TaskName
  /** The claim ends unless the master renews it by this (`Feed.leases`); undefined: it lasts as long as its worker. */
  readonly lease?: string
}
