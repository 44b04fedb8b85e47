export {
  openSocketTransport,
  type SocketTransport,
  type SocketTransportOptions,
} from './client/socket-transport.js'
export { SPOOL_IGNORE, SPOOL_OK, SPOOL_RETRY } from './task/outcome.js'
export type { Request } from './task/request.js'
export type { Answer, Env, Handler, Task } from './task/task.js'
