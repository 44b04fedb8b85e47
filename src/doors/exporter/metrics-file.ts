import { messageOf } from '../../base/errors.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { Opener } from '../../system/opener.js'
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
  readonly #files = new Opener(null)
  /** What was written last. */
  #inode = ''
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
    try {
      this.#files.remove(this.#path, this.#inode)
    } catch {} // its directory is gone, or closed to us
  }

  async #write(): Promise<void> {
    try {
      const text = exposition(METRICS, await this.#context.snapshot(), 'prometheus')
      this.#inode = this.#files.replace(this.#path, text, 0o644) // node_exporter is another user, whatever the umask
      this.#isTroubled = false
    } catch (error) {
      if (!this.#isTroubled)
        this.#context.trouble(`spooler-metrics-file: ${this.#path} is not written: ${messageOf(error)}`)
      this.#isTroubled = true
    }
  }
}
