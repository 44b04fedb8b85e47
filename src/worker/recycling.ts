import { treeMemoryOf } from '../system/tree-memory.js'
import type { RecycleReason } from '../task/recycle-reason.js'

/** When a worker asks for its successor; 0: never for that reason. */
export interface RecyclingOptions {
  readonly maxTasks: number
  /** `reload-on-rss` and `reload-on-as`: of this process with its interpreters and programs. */
  readonly memory: {
    readonly rssBytes: number
    readonly vszBytes: number
    /** A younger process is left alone. */
    readonly minAgeMs: number
  }
}

/** Call it after each task. @param handled how many tasks this process has handled */
export function recycleReason(
  handled: number,
  { maxTasks, memory: { rssBytes, vszBytes, minAgeMs } }: RecyclingOptions,
): RecycleReason | undefined {
  if (maxTasks > 0 && handled >= maxTasks) return { kind: 'tasks', limit: maxTasks }
  // this clock starts with the process
  if ((rssBytes === 0 && vszBytes === 0) || performance.now() < minAgeMs) return undefined
  const memory = treeMemoryOf(process.pid)
  if (vszBytes > 0 && memory.vszBytes >= vszBytes)
    return { kind: 'as', bytes: memory.vszBytes, limit: vszBytes }
  if (rssBytes > 0 && memory.rssBytes >= rssBytes)
    return { kind: 'rss', bytes: memory.rssBytes, limit: rssBytes }
  return undefined
}
