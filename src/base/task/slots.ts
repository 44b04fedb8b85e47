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
  /** The refs that come with it are tasks of this name, and may wait until others of the name end in this worker. */
  readonly follow?: string
}

/** So many more tasks of a name could follow those that a worker runs. */
export interface SlotWish extends NamedSlots {
  readonly wanted: number
}
