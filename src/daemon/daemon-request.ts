import type { CheckedConfig } from '../config/check.js'
import type { SpareWorker } from '../supervisor/spare-worker.js'

export interface DaemonRequest {
  readonly config: CheckedConfig
  readonly version: string
  /** Sockets that were handed over, listening: their descriptors. */
  readonly inherited: readonly number[]
  /** Where the log goes when the process was sent to the background. */
  readonly logFile: string | null
  /** It is the child of a root parent (root-parent.ts). */
  readonly isUnderRoot: boolean
  /** Forked ahead of the first worker. */
  readonly spare: SpareWorker | undefined
  /** Reads the configuration again, for a reload. */
  readConfig(): CheckedConfig
  /** Everything runs. */
  started(): void
}
