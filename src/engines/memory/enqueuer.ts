import { counted } from '../../base/counted.js'
import { SpooldError, toError } from '../../base/errors.js'
import type { Request, Stored } from '../../base/task/request.js'
import { HEADER_BYTES } from '../../formats/protocol/header.js'
import { parseVars } from '../../formats/protocol/vars.js'
import { wholeBody } from '../body.js'
import type { Enqueuer, StoreResult } from '../enqueuer.js'
import type { MemorySpool } from './spool.js'

/** Stores tasks in a spool of this process. */
export class MemoryEnqueuer implements Enqueuer {
  readonly #spool: MemorySpool

  constructor(spool: MemorySpool) {
    this.#spool = spool
  }

  get name(): string {
    return this.#spool.name
  }

  async store(request: Request): Promise<Stored> {
    return this.#store(request, await wholeBody(request))
  }

  storeSync(request: Request): Stored {
    const stored = this.storeAtOnce(request)
    if (stored !== undefined) return stored
    throw new SpooldError('REQUEST_INVALID', 'a body that comes in pieces cannot be stored without waiting', {
      details: { key: 'body' },
    })
  }

  storeAtOnce(request: Request): Stored | undefined {
    const { body } = request
    return body === undefined || Buffer.isBuffer(body) ? this.#store(request, body) : undefined
  }

  async storeAll(requests: readonly Request[], isAllOrNothing = false): Promise<readonly StoreResult[]> {
    const bodies = await Promise.allSettled(requests.map(request => wholeBody(request)))
    const failure = bodies.find(body => body.status === 'rejected')
    if (isAllOrNothing && failure !== undefined)
      return requests.map(() => ({ error: toError(failure.reason) }))
    if (isAllOrNothing && this.#spool.size + requests.length > this.#spool.capacity)
      return requests.map(() => ({ error: this.#full() }))
    return requests.map((request, i) => {
      const body = bodies[i]
      if (body === undefined || body.status === 'rejected') return { error: toError(body?.reason) }
      try {
        return { stored: this.#store(request, body.value) }
      } catch (error) {
        return { error: toError(error) }
      }
    })
  }

  #store({ packet, atSeconds, priority, id, name }: Request, body: Buffer | undefined): Stored {
    const path = id === undefined ? undefined : this.#spool.ids.get(id)?.path
    if (path !== undefined) return { path, isDuplicate: true }
    const { size, ids, capacity } = this.#spool
    if (size >= capacity || (id !== undefined && ids.size >= capacity)) throw this.#full()
    const vars = parseVars(packet.toString('latin1'), HEADER_BYTES, packet.length)
    if ('fault' in vars) throw new SpooldError('REQUEST_INVALID', vars.fault)
    const task = this.#spool.add(
      {
        vars,
        body: body === undefined || body.length === 0 ? undefined : body,
        priority: priority === undefined ? null : Number(priority),
        dueAtMs: atSeconds === undefined ? Date.now() : atSeconds * 1000,
      },
      name,
    )
    const stored: Stored = { path: this.#spool.pathOf(task), isDuplicate: false }
    if (id !== undefined) ids.set(id, { path: stored.path, sinceMs: Date.now() })
    return stored
  }

  #full(): SpooldError {
    const { name, capacity } = this.#spool
    return new SpooldError('SPOOL_FULL', `${name} holds ${counted(capacity, 'task')}, as many as it may`, {
      details: { path: name },
    })
  }
}
