/** The slots of all tasks of one name (`maxConcurrency`): each that runs has one, whichever worker and daemon runs it. */
export interface NamedSlots {
  readonly name: string
  readonly count: number
}

/** Tasks that are parked because all slots of their name are taken. */
export interface SlotQueueStats extends NamedSlots {
  readonly parked: number
}
