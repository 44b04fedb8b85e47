import type { Request } from '../../base/task/request.js'
import { DeferredEnqueuer } from '../../engines/deferred-enqueuer.js'
import type { Enqueuer, StoreResult } from '../../engines/enqueuer.js'
import { DEFAULT_QUEUE } from '../../formats/protocol/named.js'
import type { WorkerMessage, WorkerOptions } from '../ipc/messages.js'
import type { CurrentDaemon } from '../tasks/daemon.js'
import { unknownQueue } from '../tasks/queues.js'

/** The most stored tasks in one message, which has room for them however long their paths are. */
const MOST_TOLD = 1000

type Places = Pick<WorkerOptions, 'spool' | 'targets' | 'queues' | 'sockets'>

/** Returns the daemon as the named tasks of this worker see it. */
export function daemonOf(
  options: Places,
  send: (message: WorkerMessage) => void,
  current: CurrentDaemon['current'],
): CurrentDaemon {
  const enqueuers = new Map<string, Enqueuer>()
  return {
    enqueuerOf(queue) {
      const enqueuer = enqueuers.get(queue) ?? openQueue(queue, options, send)
      enqueuers.set(queue, enqueuer)
      return enqueuer
    },
    current,
  }
}

/** @throws SpooldError QUEUE_UNKNOWN */
function openQueue(
  queue: string,
  { spool, targets, queues, sockets = [] }: Places,
  send: (message: WorkerMessage) => void,
): Enqueuer {
  const socket = sockets.find(([name]) => name === queue)?.[1]
  if (socket !== undefined) return new DeferredEnqueuer(socket, () => openSocket(socket))
  const mapped = queues.find(([name]) => name === queue)?.[1]
  if (mapped === undefined && queue !== DEFAULT_QUEUE)
    throw unknownQueue(
      queue,
      [...queues, ...sockets].map(([name]) => name),
      `the daemon's configuration: spooler-queue = ${queue}=/var/spool/${queue}`,
    )
  const directory = mapped ?? spool
  const open = async () => {
    const { SpoolTargets } = await import('../../engines/targets.js')
    const own = new SpoolTargets(targets).find(Buffer.from(directory))
    return own ?? new SpoolTargets([{ directory, sync: true }]).get() // a spool of another daemon, or of none
  }
  return announcing(new DeferredEnqueuer(directory, open), send)
}

/** @throws SpooldError ADDRESS_INVALID */
async function openSocket(socket: string): Promise<Enqueuer> {
  const { attachedOf } = await import('../tasks/destinations.js')
  return attachedOf(DEFAULT_QUEUE, { socket })
}

/** Returns the enqueuer with a message to the master about each stored task, so that the master does not have to find it. */
function announcing(enqueuer: Enqueuer, send: (message: WorkerMessage) => void): Enqueuer {
  return {
    name: enqueuer.name,
    async store(request) {
      const stored = await enqueuer.store(request)
      tellStored([request], [{ stored }], send)
      return stored
    },
    async storeAll(requests, isAllOrNothing) {
      const results = await enqueuer.storeAll(requests, isAllOrNothing)
      tellStored(requests, results, send)
      return results
    },
  }
}

/** Tells the master which tasks code of users has stored together. */
export function tellStored(
  requests: readonly Request[],
  results: readonly StoreResult[],
  send: (message: WorkerMessage) => void,
): void {
  const tasks = requests.flatMap(({ packet, body }, i) => {
    const result = results[i]
    if (result === undefined || !('stored' in result) || result.stored.isDuplicate) return []
    return [{ path: result.stored.path, bytes: packet.length + (body instanceof Buffer ? body.length : 0) }]
  })
  for (let at = 0; at < tasks.length; at += MOST_TOLD)
    send({ type: 'stored', tasks: tasks.slice(at, at + MOST_TOLD) })
}
