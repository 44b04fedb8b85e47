import { onDemand } from './on-demand.js'

/** To be called before this process becomes somebody who may not read packages. */
export const loadEach = onDemand<typeof import('p-map')>('p-map')

interface EachOptions {
  /** So many are in hand at the same time, begun in order; one unless given. */
  readonly atOnce?: number
  /** Once it is aborted, nothing more is begun. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Does something to each of many: the one loop of all that changes much. The event loop runs at least every few milliseconds,
 * however little of the work waits for anything: else no signal, no timer and no socket would be heard before the end.
 *
 * Resolves when all have ended; after an abort, when those in hand have.
 *
 * @throws what the first that failed has thrown; after that, none is begun
 */
export async function doEach<T>(
  items: AsyncIterable<T> | Iterable<T>,
  act: (item: T) => void | Promise<void>,
  { atOnce = 1, signal }: EachOptions = {},
): Promise<void> {
  const slices = new Slices()
  const inHand = new Set<Promise<void>>()
  const begin = async (item: T) => {
    await slices.rest()
    if (signal?.aborted !== true) await act(item)
  }
  const one = (item: T) => {
    const going = begin(item).finally(() => inHand.delete(going))
    inHand.add(going)
    return going
  }
  try {
    // it rejects at once when it is aborted, and does not wait for what is in hand
    await loadEach().default(items, one, { concurrency: atOnce, ...(signal === undefined ? {} : { signal }) })
  } catch (error) {
    if (signal?.aborted !== true || error !== signal.reason) throw error
  } finally {
    await Promise.allSettled(inHand)
  }
}

/** How long synchronous work may block the event loop. */
const SLICE_MS = 4

/** Cuts long synchronous work into slices; between them the event loop runs. */
export class Slices {
  #since = performance.now()

  /** Call it regularly, and await the result if there is one. */
  rest(): Promise<void> | undefined {
    return performance.now() - this.#since < SLICE_MS ? undefined : this.#next()
  }

  async #next(): Promise<void> {
    await new Promise(resolve => setImmediate(resolve))
    this.#since = performance.now()
  }
}
