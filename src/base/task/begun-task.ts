import type { ReportKind } from './report.js'

/** A named task whose run has begun, as processes tell each other. */
export interface BegunTask {
  readonly id: string
  readonly name: string
  /** Of its registry; absent: that of whoever runs it. */
  readonly namespace?: string | undefined
  readonly queue: string
  /** Epoch ms. */
  readonly atMs: number
  /** Null: no limit. */
  readonly maxRetries: number | null
  readonly retries: number
  readonly args: readonly unknown[]
  readonly kwargs?: Readonly<Record<string, unknown>> | undefined
}

/** How that run ended. */
export interface RunEnd {
  readonly kind: ReportKind
  readonly atMs?: number | undefined
  readonly detail?: string | undefined
}
