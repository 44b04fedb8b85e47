import { machineNowMs } from '../../base/clock.js'

/** A message that is older than this waited for a stopped or blocked process, and others may have followed it. */
const STALE_MS = 50

/** @param sentAtMs by `machineNowMs` */
export function isStale(sentAtMs: number): boolean {
  return machineNowMs() - sentAtMs > STALE_MS
}

/**
 * Calls back after all pending messages have been read, because one of them may recall tasks. It takes two turns of
 * the event loop: the first may belong to the current poll phase, which does not read a pipe twice.
 */
export function afterMessages(callBack: () => void): void {
  setImmediate(() => setImmediate(callBack))
}
