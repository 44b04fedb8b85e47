import type { WorkerProcess } from './worker-process.js'

/** A worker that lives so long was no quick death. */
const LONG_LIFE_MS = 1000
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 5000

/**
 * How long to wait before a dead worker's successor is spawned. uWSGI respawns about once a second for ever; we respawn
 * the first at once, and back off while they keep dying young: 0, 100 ms, 200 ms, … 5 s. A worker that has come to its
 * first task does not count: the task does, it has its own limit and its own delay, and the others should not wait for it.
 */
export class RespawnDelay {
  #quickDeaths = 0

  next({ spawnedAt, hasWorked }: Pick<WorkerProcess, 'spawnedAt' | 'hasWorked'>): number {
    const isYoung = performance.now() - spawnedAt < LONG_LIFE_MS
    this.#quickDeaths = isYoung && !hasWorked ? this.#quickDeaths + 1 : 0
    return this.#quickDeaths <= 1 ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (this.#quickDeaths - 2), MAX_DELAY_MS)
  }
}
