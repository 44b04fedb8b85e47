import type { Request } from '#src/base/task/request.js'
import { addressedFrom, type Dictionary, type TaskOptions } from '#src/engines/client/request-from.js'

/** Only the request, for a known enqueuer. */
export function requestFrom(dictionary: Dictionary, options: TaskOptions = {}): Request {
  return addressedFrom(dictionary, options).request
}
