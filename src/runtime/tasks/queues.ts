import { SpooldError } from '../../base/errors.js'
import type { Destination } from '../../engines/client/target.js'
import type { Enqueuer } from '../../engines/enqueuer.js'

// What is known about where tasks go, without the code that stores them, so that a worker that only runs tasks does not load it.

/** Where the tasks of each queue go. */
export interface Destinations extends Destination {
  /**
   * A spool directory, or the address of a daemon, by the name of the queue. `spooler` and `socket` are for the default queue.
   */
  readonly queues?: Readonly<Record<string, string>>
}

/** The destinations of a registry. They may be a function, because an application may have spools that no path leads to. */
export interface AttachedDestinations extends Destinations {
  /** Has precedence over all other fields. */
  enqueuerOf?(queue: string): Enqueuer
}

/** True if the options say where tasks go. */
export function isDestination({ spooler, socket }: Destination): boolean {
  return spooler !== undefined || socket !== undefined
}

/** Returns the error for a queue that has no spool. @param where the place where queues are given their spools */
export function unknownQueue(queue: string, known: readonly string[], where: string): SpooldError {
  const others = known.length === 0 ? 'no queue has one' : `those of ${known.join(', ')} are known`
  return new SpooldError(
    'QUEUE_UNKNOWN',
    `no spool is known for the queue ${queue}, ${others}; give it one in ${where}`,
    { details: { queue } },
  )
}
