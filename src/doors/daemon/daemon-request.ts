import type { SpareWorker } from '../../runtime/supervisor/spare-worker.js'
import type { ServiceManager } from '../../system/systemd/service-manager.js'
import type { CheckedConfig } from '../check/check.js'
import type { DrainProgress } from './drain.js'

export interface DaemonRequest {
  readonly config: CheckedConfig
  readonly version: string
  /** File descriptors of listening sockets that were passed to the process. */
  readonly inherited: readonly number[]
  /** The log file if the process was sent to the background. */
  readonly logFile: string | null
  /** This process is the child of a root parent (root-parent.ts). */
  readonly isUnderRoot: boolean
  /** Wants to know when everything runs, and how it goes on. */
  readonly manager: ServiceManager | undefined
  /** A worker process that was forked before the first worker is needed. */
  readonly spare: SpareWorker | undefined
  /** undefined: nobody watches. */
  readonly progress?: DrainProgress | undefined
  /** Reads the configuration again for a reload. */
  readConfig(): CheckedConfig
  /** Call it once everything runs. */
  started(): void
}
