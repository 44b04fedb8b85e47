import { MODIFIER2_OFFSET } from '../../formats/protocol/header.js'
import { systemCalls } from '../../system/libc.js'

/**
 * Our only write-ahead mark: the packet's fourth byte, modifier2, which uWSGI writes as 0 and never reads in a spool file. The
 * byte is written in place through the locked descriptor, so it moves with the file and needs no clean-up.
 *
 * The byte only gains bits, until the file is removed, or until a recorded retry or a command resets it. So a finished task
 * does not run again because the disk refused its record.
 */
export const STARTED = 0x80
/** A record exists: of earlier failures, or of a hold. */
export const RECORDED = 0x01
/** With STARTED: ran to SPOOL_OK, but the file could not be removed. */
export const DONE = 0x02
/** With STARTED: the run began alongside others, or was passed to a host together with others. */
export const BESIDE = 0x04
/** `spoold kick`: ignore the packet's `at`. */
export const KICKED = 0x08
/** With STARTED: the task runs at most once. If this run is not settled, it does not run again. */
export const ONCE = 0x10
/** With STARTED: the task has to be buried, which has failed so far. */
export const BURY = 0x40

const OURS = STARTED | RECORDED | DONE | BESIDE | KICKED | ONCE | BURY
/** Bits with a meaning without STARTED. */
const AT_REST = RECORDED | KICKED

/** What the state byte says about the last run to the next process that claims the file. */
export type Past =
  | 'none' // no unsettled run: the task runs
  | 'died-alone' // counted as a crash
  | 'died-beside' // not counted; the next run is alone
  | 'died-once' // buried: it is unknown how far the run got
  | 'done' // removed
  | 'to-bury' // buried

/** One row per state; RECORDED and KICKED may be set in addition. docs/spool-format.md has the same table. */
export const STATES: ReadonlyArray<readonly [state: number, past: Past]> = [
  [0x00, 'none'],
  [STARTED, 'died-alone'],
  [STARTED | BESIDE, 'died-beside'],
  [STARTED | ONCE, 'died-once'],
  [STARTED | DONE, 'done'],
  [STARTED | DONE | ONCE, 'done'],
  [STARTED | BURY, 'to-bury'],
  [STARTED | BURY | ONCE, 'to-bury'],
]

/** @param state from `ownState`. Bits added by a later step take precedence over earlier ones. */
export function pastOf(state: number): Past {
  if ((state & STARTED) === 0) return 'none'
  if ((state & BURY) !== 0) return 'to-bury'
  if ((state & DONE) !== 0) return 'done'
  if ((state & ONCE) !== 0) return 'died-once'
  return (state & BESIDE) === 0 ? 'died-alone' : 'died-beside'
}

/** Returns modifier2 as our mark; 0 if it has unknown bits, because then another program wrote it. */
export function ownState(modifier2: number): number {
  const known = (modifier2 & STARTED) === 0 ? AT_REST : OURS
  return (modifier2 & ~known) === 0 ? modifier2 : 0
}

/** True if a run has begun, and nothing says that it ended. */
export function isBegun(state: number): boolean {
  return (state & STARTED) !== 0 && (state & (DONE | BURY)) === 0
}

const byte = Buffer.alloc(1)

/** Returns the bits that outlive a run; the others concern only the run that ends. */
export function lasting(state: number): number {
  return state & (RECORDED | KICKED)
}

/** Returns the current state, which a run may have changed since the claim. */
export function readState(fd: number): number {
  return systemCalls().pread(fd, byte, 1, MODIFIER2_OFFSET) === 1 ? ownState(byte[0] ?? 0) : 0
}

/** Writes the state by one `pwrite`. The page cache outlives every process, so the mark survives `kill -9` of all of them. */
export function writeState(fd: number, state: number): void {
  byte[0] = state
  systemCalls().pwrite(fd, byte, 1, MODIFIER2_OFFSET)
}
