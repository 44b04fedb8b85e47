import { open, rename, rm } from 'node:fs/promises'
import { messageOf } from '../../base/errors.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { exposition } from './exposition.js'
import { METRICS } from './metrics.js'

interface MetricsFileContext {
  snapshot(): Promise<DaemonSnapshot>
  trouble(message: string): void
}

const EVERY_MS = 15_000

/**
 * Keeps a file of metrics current, for the textfile collector of node_exporter. A reader finds a whole file or none. It is
 * removed at the end, so that figures of a daemon that is gone are not published for ever; after a crash its age tells.
 */
export class MetricsFile {
  readonly #path: string
  readonly #context: MetricsFileContext
  readonly #timer: NodeJS.Timeout
  #writing: Promise<void>
  #isTroubled = false

  constructor(path: string, context: MetricsFileContext) {
    this.#path = path
    this.#context = context
    this.#writing = this.#write()
    this.#timer = setInterval(() => {
      this.#writing = this.#writing.then(() => this.#write())
    }, EVERY_MS)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#writing
    await rm(this.#path, { force: true }).catch(() => {})
  }

  async #write(): Promise<void> {
    try {
      await replace(this.#path, exposition(METRICS, await this.#context.snapshot(), 'prometheus'))
      this.#isTroubled = false
    } catch (error) {
      if (!this.#isTroubled)
        this.#context.trouble(`spooler-metrics-file: ${this.#path} is not written: ${messageOf(error)}`)
      this.#isTroubled = true
    }
  }
}

/** The directory may be another user's: what is created is new, and follows no link. Not synced: it is written again soon. */
async function replace(path: string, text: string): Promise<void> {
  const made = `${path}.${process.pid}.tmp` // the collector reads *.prom
  await rm(made, { force: true })
  try {
    const file = await open(made, 'wx', 0o644)
    try {
      await file.chmod(0o644) // node_exporter is another user, whatever the umask
      await file.writeFile(text)
    } finally {
      await file.close()
    }
    await rename(made, path)
  } catch (error) {
    await rm(made, { force: true }).catch(() => {})
    throw error
  }
}
