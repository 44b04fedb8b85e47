import { describe, SpooldError } from '../base/errors.js'
import { queueFault } from '../protocol/named.js'
import { placeOfCallOf } from './place.js'
import type { Destinations } from './queues.js'
import { hasRegistry, REGISTRY, Registry } from './registry.js'
import { notTasks, TaskScheduler, type Tasks } from './tasks.js'

/** What an application says once. */
export interface SpooldOptions extends Destinations {
  /** The tasks that go there. */
  readonly tasks?: Tasks | readonly Tasks[]
}

const OPTIONS = ['spooler', 'socket', 'sync', 'queues', 'tasks']

/**
 * An application: which tasks it has, and where they go.
 *
 * ```ts
 * const spoold = new Spoold({ spooler: '/var/spool/app', queues: { mail: '/var/spool/mail' }, tasks })
 * await spoold.schedule('send-mail', 'joe@example.com')
 * ```
 */
export class Spoold extends TaskScheduler {
  readonly [REGISTRY]: Registry

  /** @throws SpooldError TASK_INVALID if two tasks have one name, or an option is wrong */
  constructor(options: SpooldOptions) {
    super()
    const { tasks = [], ...destinations } = options
    const place = placeOfCallOf(new.target as never)
    checkOptions(options, place)
    this[REGISTRY] = new Registry({}, undefined, destinations)
    for (const each of Array.isArray(tasks) ? tasks : [tasks]) {
      if (!hasRegistry(each)) throw notTasks(place, each)
      this[REGISTRY].use(each[REGISTRY], place)
    }
  }
}

function checkOptions(options: SpooldOptions, place: string): void {
  const unknown = Object.keys(options).find(name => !OPTIONS.includes(name))
  if (unknown !== undefined)
    throw new SpooldError(
      'TASK_INVALID',
      `${place}: there is no option ${unknown}; expected one of ${OPTIONS.join(', ')}`,
    )
  const { spooler, socket, queues = {} } = options
  if (spooler === undefined && socket === undefined && Object.keys(queues).length === 0)
    throw new SpooldError(
      'TASK_INVALID',
      `${place}: expected spooler, socket or queues, which say where tasks go`,
    )
  for (const [queue, where] of Object.entries(queues)) {
    const fault = queueFault(queue)
    if (fault !== undefined)
      throw new SpooldError(
        'TASK_INVALID',
        `${place}: a queue's name must be ${fault}, got ${describe(queue)}`,
      )
    if (typeof where !== 'string' || where === '')
      throw new SpooldError(
        'TASK_INVALID',
        `${place}: queue ${queue}: expected a directory or an address, got ${describe(where)}`,
      )
  }
}
