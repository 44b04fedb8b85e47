import { closeSync, ftruncateSync } from 'node:fs'
import { messageOf, SpooldError } from '../../base/errors.js'
import { openUnnamed } from '../../runtime/worker/hosts/page.js'

/**
 * Memory that all workers of a daemon share: unnamed files, which disappear with the last process that has them open.
 */
export class SharedAreas {
  #areas: ReadonlyArray<{ readonly fd: number; readonly bytes: number }> = []

  get fds(): readonly number[] {
    return this.#areas.map(({ fd }) => fd)
  }

  /**
   * Creates the areas. One whose size has not changed keeps its content, also across a reload.
   *
   * @throws SpooldError START_FAILED
   */
  make(sizes: readonly number[]): void {
    const before = this.#areas
    this.#areas = sizes.map((bytes, i) =>
      before[i]?.bytes === bytes ? before[i] : { fd: open(bytes), bytes },
    )
    for (const area of before) if (!this.#areas.includes(area)) closeSync(area.fd)
  }
}

function open(bytes: number): number {
  try {
    const fd = openUnnamed()
    ftruncateSync(fd, bytes)
    return fd
  } catch (error) {
    throw new SpooldError('START_FAILED', `no memory can be shared (sharedarea): ${messageOf(error)}`, {
      cause: error,
    })
  }
}
