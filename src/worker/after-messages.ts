/**
 * Calls back when all messages that have come were heard: what was given may have been cancelled. The first turn may
 * belong to the poll in which we were called, which reads no more of a pipe that it has read from.
 */
export function afterMessages(callBack: () => void): void {
  setImmediate(() => setImmediate(callBack))
}
