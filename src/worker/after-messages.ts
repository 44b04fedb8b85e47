/**
 * Calls back after all pending messages have been read, because one of them may cancel tasks. It takes two turns of
 * the event loop: the first may belong to the current poll phase, which does not read a pipe twice.
 */
export function afterMessages(callBack: () => void): void {
  setImmediate(() => setImmediate(callBack))
}
