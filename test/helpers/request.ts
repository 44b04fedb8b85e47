import { addressedFrom, type Dictionary, type TaskOptions } from '#src/client/request-from.js'
import type { Request } from '#src/task/request.js'

/** Only the request, for a known enqueuer. */
export function requestFrom(dictionary: Dictionary, options: TaskOptions = {}): Request {
  return addressedFrom(dictionary, options).request
}
