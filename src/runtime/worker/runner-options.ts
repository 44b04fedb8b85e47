import type { Hide } from '../../formats/protocol/hide.js'
import type { ReportBufferOptions } from './report-buffer.js'
import type { RecyclingOptions } from './retirement.js'
import type { RunLimits } from './run.js'

export interface RunnerOptions extends ReportBufferOptions, RecyclingOptions, RunLimits {
  /** Tasks begin while others run in this process. */
  readonly isConcurrent: boolean
  /** The run of a signal's handler counts towards `maxTasks`. */
  readonly signalAsTask: boolean
  readonly hide: Hide
  /** Calls the handler of a signal. */
  handle(signal: number): unknown
  /** Nothing is running, and nothing will run any more. */
  drained(): void
}
