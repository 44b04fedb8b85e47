export type {
  Logger,
  Mode,
  SpooldOptions,
  StartOptions,
  StopOptions,
  TaskSource,
} from './api/embed/options.js'
export { Spoold } from './api/embed/spoold.js'
export { TaskBatch, type TaskBatchOptions } from './api/tasks/batch.js'
export type { Scheduler } from './api/tasks/scheduler.js'
export type { NamedTask } from './api/tasks/task-function.js'
export { type AddOptions, Tasks, type TasksOptions } from './api/tasks/tasks.js'
export { type ErrorCode, SpooldError } from './base/errors.js'
export {
  AbortTask,
  type Answer,
  type BuryAnswer,
  type PolicyAnswer,
  type RetryAnswer,
  type RetryOptions,
  RetryTask,
} from './base/task/answer.js'
export { SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from './base/task/outcome.js'
export type { Stored } from './base/task/request.js'
export type { Env, Handler, Task } from './base/task/task.js'
export { Batch, BatchError, type BatchOptions, type BatchResult } from './engines/client/batch.js'
export type { Dictionary, TaskOptions } from './engines/client/request-from.js'
export { sendSignal } from './engines/client/send-signal.js'
export { enqueue, enqueueSync, type SpoolOptions, spool, spoolSync } from './engines/client/spool.js'
export type { Destination } from './engines/client/target.js'
export type { Value } from './engines/client/value.js'
export type { CallOptions, When } from './runtime/tasks/call-options.js'
export { currentTask, type RunningTask } from './runtime/tasks/daemon.js'
export {
  type EventHub,
  events,
  type LifecycleEvent,
  type LifecycleEvents,
  type ListenOptions,
  type TaskErrorEvent,
  type TaskEvent,
  type WorkerEvent,
} from './runtime/tasks/event-hub.js'
export type { Middleware, TaskCall, TaskCallChanges } from './runtime/tasks/middleware.js'
export { type ScheduledTask, TaskStatus } from './runtime/tasks/scheduled-task.js'
export type { TaskDefinition, TaskSettings } from './runtime/tasks/settings.js'
export type { StandardSchema } from './runtime/tasks/standard-schema.js'
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
} from './runtime/worker/signal-api.js'
