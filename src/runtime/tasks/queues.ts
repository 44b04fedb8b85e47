import { SpooldError } from '../../base/errors.js'
import type { Destination } from '../../engines/client/target.js'
import type { Enqueuer } from '../../engines/enqueuer.js'

// What is known about where tasks go, without what goes there: a worker that only runs tasks does not load that.

/** Where the tasks of each queue go. */
export interface Destinations extends Destination {
  /** By the name of the queue: a spool directory, or the address of a daemon. `spooler` and `socket` are the default queue. */
  readonly queues?: Readonly<Record<string, string>>
}

/** The same, for a registry: an application may have spools that no path leads to. */
export interface AttachedDestinations extends Destinations {
  /** Goes before all else. */
  enqueuerOf?(queue: string): Enqueuer
}

/** Does it say where tasks go? */
export function isDestination({ spooler, socket }: Destination): boolean {
  return spooler !== undefined || socket !== undefined
}

/** @param where where queues are given their spools */
export function unknownQueue(queue: string, known: readonly string[], where: string): SpooldError {
  const others = known.length === 0 ? 'no queue has one' : `those of ${known.join(', ')} are known`
  return new SpooldError(
    'QUEUE_UNKNOWN',
    `no spool is known for the queue ${queue}, ${others}; give it one in ${where}`,
    { details: { queue } },
  )
}
