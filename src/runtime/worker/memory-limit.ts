import type { RecycleReason } from '../../base/task/recycle-reason.js'
import { treeMemoryOf } from '../../system/process-usage.js'

/** `reload-on-rss` and `reload-on-as`: of this process with its interpreters and programs. 0: no limit. */
export interface MemoryLimitOptions {
  readonly rssBytes: number
  readonly vszBytes: number
  /** A younger process is left alone. */
  readonly minAgeMs: number
}

/** A look at all threads and children takes as long as ten short tasks, so not each task is followed by one. */
const EVERY_MS = 100

/** Finds out whether a task has left this process with more memory than it may keep. */
export class MemoryLimit {
  readonly #options: MemoryLimitOptions
  readonly #look: () => void
  #lookedAt = Number.NEGATIVE_INFINITY
  #next: NodeJS.Timeout | undefined

  /** @param look is called when there was no look after the last task: the time for one has come */
  constructor(options: MemoryLimitOptions, look: () => void) {
    this.#options = options
    this.#look = look
  }

  /** Call it after each task. @returns why this process has to go */
  check(): RecycleReason | undefined {
    const { rssBytes, vszBytes, minAgeMs } = this.#options
    if (rssBytes === 0 && vszBytes === 0) return undefined
    const now = performance.now() // this clock starts with the process
    if (now < minAgeMs) return undefined
    const leftMs = this.#lookedAt + EVERY_MS - now
    if (leftMs > 0) {
      this.#next ??= setTimeout(() => this.#lookNow(), leftMs).unref()
      return undefined
    }
    this.#lookedAt = now
    return excess(this.#options)
  }

  #lookNow(): void {
    this.#next = undefined
    this.#look()
  }
}

function excess({ rssBytes, vszBytes }: MemoryLimitOptions): RecycleReason | undefined {
  const memory = treeMemoryOf(process.pid)
  if (vszBytes > 0 && memory.vszBytes >= vszBytes)
    return { kind: 'as', bytes: memory.vszBytes, limit: vszBytes }
  if (rssBytes > 0 && memory.rssBytes >= rssBytes)
    return { kind: 'rss', bytes: memory.rssBytes, limit: rssBytes }
  return undefined
}
