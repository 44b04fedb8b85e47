import type { Request } from '#src/base/task/request.js'
import { addressedFrom, type Dictionary, type TaskOptions } from '#src/engines/client/request-from.js'

/** Returns only the request, without its address, for an enqueuer that is at hand. */
export function requestFrom(dictionary: Dictionary, options: TaskOptions = {}): Request {
  return addressedFrom(dictionary, options).request
}
