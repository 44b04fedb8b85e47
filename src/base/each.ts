import { onDemand } from './on-demand.js'

/** Loads p-map. To be called before this process becomes a user who may not read packages. */
export const loadEach = onDemand<typeof import('p-map')>('p-map')

interface EachOptions {
  /** How many items are in hand at the same time, begun in order; 1 by default. */
  readonly atOnce?: number
  /** Once it is aborted, no further item is begun. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Acts on each of many items: the one loop for everything that changes many. The event loop runs at least every few
 * milliseconds, even if the work waits for nothing: otherwise no signal, no timer and no socket would be heard before the
 * end.
 *
 * Resolves when all items have ended; after an abort, when those in hand have ended.
 *
 * @throws the error of the first item that failed; after that, no item is begun
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
    // p-map rejects at once when it is aborted, and does not wait for what is in hand
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
