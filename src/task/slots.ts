import type { Ref } from './ref.js'

/** The slots of all tasks of one name (`maxConcurrency`): each that runs has one, whichever worker and daemon runs it. */
export interface NamedSlots {
  readonly name: string
  readonly count: number
}

/** Tasks that are parked because all slots of their name are taken. */
export interface SlotQueueStats extends NamedSlots {
  readonly parked: number
}

/** What a master tells a worker, so that tasks take slots in order. */
export interface SlotNews {
  /** The names of tasks that wait for slots; absent: they are as before. */
  readonly queued?: readonly string[]
  /** Of the refs that come with it, those that may take a slot though others wait. */
  readonly tries: readonly Ref[]
}
