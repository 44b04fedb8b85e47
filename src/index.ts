export { type ErrorCode, SpooldError } from './base/errors.js'
export { Batch, BatchError, type BatchOptions, type BatchResult } from './client/batch.js'
export type { Dictionary, TaskOptions } from './client/request-from.js'
export { sendSignal } from './client/send-signal.js'
export { enqueue, enqueueSync, type SpoolOptions, spool, spoolSync } from './client/spool.js'
export type { Destination } from './client/target.js'
export type { Value } from './client/value.js'
export {
  AbortTask,
  type Answer,
  type BuryAnswer,
  type PolicyAnswer,
  type RetryAnswer,
  RetryTask,
} from './task/answer.js'
export { SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from './task/outcome.js'
export type { Stored } from './task/request.js'
export type { Env, Handler, Task } from './task/task.js'
export {
  addCron,
  addFileMonitor,
  addMsTimer,
  addRbTimer,
  addTimer,
  type CronNumbers,
  registerSignal,
  type SignalHandler,
  signal,
  signalRegistered,
} from './worker/signal-api.js'
