/** A worker that lives so long was no quick death. */
const LONG_LIFE_MS = 1000
const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 5000

/**
 * How long to wait before a dead worker's successor is spawned. uWSGI respawns about once a second for ever; we respawn
 * the first at once, and back off while they keep dying young: 0, 100 ms, 200 ms, … 5 s.
 */
export class RespawnDelay {
  #quickDeaths = 0

  next(livedMs: number): number {
    this.#quickDeaths = livedMs < LONG_LIFE_MS ? this.#quickDeaths + 1 : 0
    return this.#quickDeaths <= 1 ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (this.#quickDeaths - 2), MAX_DELAY_MS)
  }

  /** A worker did its work: whatever killed the others is over. */
  reset(): void {
    this.#quickDeaths = 0
  }
}
