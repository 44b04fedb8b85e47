import type { PoolOptions } from './pool-options.js'
import type { PoolSize } from './pool-size.js'
import type { Roster } from './roster.js'
import type { WorkerProcess } from './worker-process.js'

/** A reload whose first worker is ready. Call exactly one of `commit` and `abandon`. */
export interface Replacement {
  /** Applies it: replaces the other workers one by one. */
  commit(): Promise<void>
  abandon(): void
}

interface ReplacementContext {
  readonly roster: Roster
  readonly size: PoolSize
  /** From now on new workers get these options. */
  adopt(options: PoolOptions): void
}

/**
 * Spawns the first worker with new options; it is given no task yet. If it cannot start, nothing has changed. The size of
 * the pool is frozen until the end.
 *
 * @throws SpooldError HANDLER_UNLOADABLE
 */
export async function prepareReplacement(
  options: PoolOptions,
  context: ReplacementContext,
): Promise<Replacement> {
  const { roster, size } = context
  const thaw = () => size.freeze(false)
  size.freeze(true)
  try {
    const first = roster.spawnAside(options)
    await first.start.whenReady
    return {
      commit: () => replaceAll(first, options, context).finally(thaw),
      abandon: () => {
        thaw()
        void roster.dismiss(first)
      },
    }
  } catch (error) {
    thaw()
    throw error
  }
}

async function replaceAll(
  first: WorkerProcess,
  options: PoolOptions,
  { roster, adopt }: ReplacementContext,
): Promise<void> {
  const old = [...roster.workers]
  adopt(options)
  roster.takeIn(first)
  for (const worker of old) {
    if (roster.isClosed) return
    void roster.stop(worker)
    await Promise.allSettled(roster.fill().map(({ start }) => start.whenReady))
  }
  roster.fill()
}
