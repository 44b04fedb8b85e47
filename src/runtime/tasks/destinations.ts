import { statSync } from 'node:fs'
import { describe, SpooldError } from '../../base/errors.js'
import { type Destination, openTarget } from '../../engines/client/target.js'
import type { Enqueuer } from '../../engines/enqueuer.js'
import { DEFAULT_QUEUE, queueFault } from '../../formats/protocol/named.js'
import { currentDaemon } from './daemon.js'
import { type AttachedDestinations, isDestination, unknownQueue } from './queues.js'

/** For programs that name no spool themselves. */
const VARIABLE = 'SPOOLD_ENQUEUE_TO'

/**
 * Where a task goes.
 *
 * @param named what the call or its registry says; it holds for any queue
 * @param attached what the application object says that the registry is attached to
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
    `it is not said where tasks go; say it in one of three ways: new Spoold({ spooler: '/var/spool/app', tasks }), ` +
      `an option spooler of the call or of new Tasks, or the environment variable ${VARIABLE}=/var/spool/app`,
  )
}

/** @throws SpooldError QUEUE_UNKNOWN, SPOOL_UNUSABLE, ADDRESS_INVALID */
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

/** By the variable's value, because this is asked for every task. */
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

/** Between commas, of which the hosts of a sentinel or a cluster have some. */
const ENTRY = /(?:[^,=/]*=)?rediss?\+(?:sentinel|cluster):\/\/[^/]*[^,]*|[^,]+|(?<=,)$/g

/** `PLACE`, or several with `QUEUE=` before those that are not the default's: `/var/spool/app,mail=/var/spool/mail`. */
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

/** A directory, or the address of a daemon: `host:3031`, `@abstract`, and a path that is a socket or is named like one. */
export function destinationOf(place: string): Destination {
  const isAddress = place.startsWith('@') || /^[^/]*:\d+$/.test(place) || place.endsWith('.sock')
  const isSocket = isAddress || statSync(place, { throwIfNoEntry: false })?.isSocket() === true
  return isSocket ? { socket: place } : { spooler: place }
}
