export { type ErrorCode, SpooldError } from './base/errors.js'
export { Batch, BatchError, type BatchOptions, type BatchResult } from './client/batch.js'
export type { Dictionary, TaskOptions } from './client/request-from.js'
export { sendSignal } from './client/send-signal.js'
export { enqueue, enqueueSync, type SpoolOptions, spool, spoolSync } from './client/spool.js'
export type { Destination } from './client/target.js'
export type { Value } from './client/value.js'
export type {
  Logger,
  Mode,
  SpooldOptions,
  StartOptions,
  StopOptions,
  TaskSource,
} from './embed/options.js'
export { Spoold } from './embed/spoold.js'
export {
  AbortTask,
  type Answer,
  type BuryAnswer,
  type PolicyAnswer,
  type RetryAnswer,
  type RetryOptions,
  RetryTask,
} from './task/answer.js'
export { SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from './task/outcome.js'
export type { Stored } from './task/request.js'
export type { Env, Handler, Task } from './task/task.js'
export { TaskBatch, type TaskBatchOptions } from './tasks/batch.js'
export type { CallOptions, When } from './tasks/call-options.js'
export { currentTask, type RunningTask } from './tasks/daemon.js'
export {
  type EventHub,
  events,
  type LifecycleEvent,
  type LifecycleEvents,
  type ListenOptions,
  type TaskErrorEvent,
  type TaskEvent,
  type WorkerEvent,
} from './tasks/event-hub.js'
export type { Middleware, TaskCall, TaskCallChanges } from './tasks/middleware.js'
export { type ScheduledTask, TaskStatus } from './tasks/scheduled-task.js'
export type { Scheduler } from './tasks/scheduler.js'
export type { TaskDefinition, TaskSettings } from './tasks/settings.js'
export type { StandardSchema } from './tasks/standard-schema.js'
export type { NamedTask } from './tasks/task-function.js'
export { type AddOptions, Tasks, type TasksOptions } from './tasks/tasks.js'
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
