export { SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from './task/outcome.js'
export type { Answer, Env, Handler, Task } from './task/task.js'
