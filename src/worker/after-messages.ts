/**
 * Calls back after all pending messages were read: one of them may cancel tasks. It takes two turns, because the first may
 * belong to the current poll phase, which does not read a pipe twice.
 */
export function afterMessages(callBack: () => void): void {
  setImmediate(() => setImmediate(callBack))
}
