import { statSync } from 'node:fs'
import { describe, SpooldError } from '../../base/errors.js'
import { type Destination, openTarget } from '../../engines/client/target.js'
import type { Enqueuer } from '../../engines/enqueuer.js'
import { DEFAULT_QUEUE, queueFault } from '../../formats/protocol/named.js'
import { currentDaemon } from './daemon.js'
import { type AttachedDestinations, isDestination, unknownQueue } from './queues.js'

/** The environment variable that names the spool for programs that name none themselves. */
const VARIABLE = 'SPOOLD_ENQUEUE_TO'

/**
 * Returns where a task goes.
 *
 * @param named the destination that the call or its registry names; it holds for any queue
 * @param attached the destinations of the application object to which the registry is attached
 * @throws SpooldError DESTINATION_MISSING, QUEUE_UNKNOWN, SPOOL_UNUSABLE, ADDRESS_INVALID
 */
export function enqueuerOf(
  queue: string,
  named: Destination | undefined,
  attached: AttachedDestinations | undefined,
): Enqueuer {
  if (named !== undefined) return openTarget(named)
  if (attached !== undefined) return attachedOf(queue, attached)
  const daemon = currentDaemon()
  if (daemon !== undefined) return daemon.enqueuerOf(queue)
  const value = process.env[VARIABLE]
  if (value !== undefined && value !== '') return openTarget(destinationIn(value, queue))
  throw new SpooldError(
    'DESTINATION_MISSING',
    `nothing says where tasks go; say it in one of three ways: new Spoold({ spooler: '/var/spool/app', tasks }), ` +
      `an option spooler of the call or of new Tasks, or the environment variable ${VARIABLE}=/var/spool/app`,
  )
}

/** Returns where an application's tasks of a queue go. @throws SpooldError QUEUE_UNKNOWN, SPOOL_UNUSABLE, ADDRESS_INVALID */
export function attachedOf(queue: string, destinations: AttachedDestinations): Enqueuer {
  const { queues = {}, sync = true } = destinations
  if (destinations.enqueuerOf !== undefined) return destinations.enqueuerOf(queue)
  const place = Object.hasOwn(queues, queue) ? queues[queue] : undefined
  if (place !== undefined) return openTarget({ ...destinationOf(place), sync })
  if (queue === DEFAULT_QUEUE && isDestination(destinations)) return openTarget(destinations)
  throw unknownQueue(queue, Object.keys(queues), 'new Spoold({ queues: { … } })')
}

interface Places {
  readonly byQueue: ReadonlyMap<string, Destination>
}

/** The places in the last value of the variable. They are kept, because they are needed for every task. */
let parsed: { readonly value: string; readonly places: Places } | undefined

function destinationIn(value: string, queue: string): Destination {
  if (parsed?.value !== value) parsed = { value, places: { byQueue: placesIn(value) } }
  const { byQueue } = parsed.places
  const place = byQueue.get(queue)
  if (place !== undefined) return place
  throw unknownQueue(
    queue,
    [...byQueue.keys()],
    `${VARIABLE}, as in /var/spool/app,${queue}=/var/spool/${queue}`,
  )
}

/** One entry of a list with commas. The address of a sentinel or a cluster has commas of its own, between its hosts. */
const ENTRY = /(?:[^,=/]*=)?rediss?\+(?:sentinel|cluster):\/\/[^/]*[^,]*|[^,]+|(?<=,)$/g

/**
 * Parses places, of which those that are not of the default queue have `QUEUE=` in front: `/var/spool/app,mail=/var/spool/mail`.
 */
function placesIn(value: string): Map<string, Destination> {
  const byQueue = new Map<string, Destination>()
  for (const entry of value.match(ENTRY) ?? ['']) {
    const [, queue = DEFAULT_QUEUE, place = ''] = /^(?:([^=/]*)=)?(.*)$/s.exec(entry.trim()) ?? []
    const fault = queueFault(queue)
    if (fault !== undefined || place === '')
      throw new SpooldError(
        'DESTINATION_MISSING',
        `${VARIABLE}: expected a directory, a daemon's address, or QUEUE=ONE, separated by commas; got ${describe(entry)}`,
      )
    byQueue.set(queue, destinationOf(place))
  }
  return byQueue
}

/**
 * Returns the destination for a place. A place is the address of a daemon if it is `host:3031`, `@abstract`, or a path that is a
 * socket or is named like one. Otherwise it is a directory.
 */
export function destinationOf(place: string): Destination {
  const isAddress = place.startsWith('@') || /^[^/]*:\d+$/.test(place) || place.endsWith('.sock')
  const isSocket = isAddress || statSync(place, { throwIfNoEntry: false })?.isSocket() === true
  return isSocket ? { socket: place } : { spooler: place }
}
