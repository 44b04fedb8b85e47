import { readSync, writeSync } from 'node:fs'
import { MODIFIER2_OFFSET } from '../protocol/header.js'

/**
 * Our write-ahead mark, and the only one: the packet's fourth byte, modifier2, which uWSGI writes as 0 and never reads in
 * a spool file. It is set in place through the locked descriptor, so it moves with the file and needs no clean-up.
 *
 * Until the file leaves, or a recorded retry (or a person) resets it, the byte only gains bits. So nothing that ended runs
 * again because a disk refused the record.
 */
export const STARTED = 0x80
/** A record exists: of earlier failures, or of a hold. */
export const RECORDED = 0x01
/** With STARTED: ran to SPOOL_OK, but the file could not be removed. Without it: as spoold 0.1.0 wrote it, see `pastOf`. */
export const DONE = 0x02
/** With STARTED: it began beside others, or went to a host with others. */
export const BESIDE = 0x04
/** `spoold kick`: the packet's `at` does not count any more. */
export const KICKED = 0x08
/** With STARTED: at most once. Should this run not be settled, it is not run again. */
export const ONCE = 0x10
/** With STARTED: it is to be buried, and could not be yet. */
export const BURY = 0x40

const OURS = STARTED | RECORDED | DONE | BESIDE | KICKED | ONCE | BURY
/** What means something without STARTED. */
const AT_REST = RECORDED | DONE | KICKED

/** What the last run left to whoever claims the file next. */
export type Past =
  | 'none' // no run is open: it runs
  | 'died-alone' // counted as a crash
  | 'died-beside' // counted as nothing; the next run is alone
  | 'died-once' // buried: nobody knows how far it came
  | 'done' // removed
  | 'to-bury' // buried
  | 'done-if-recorded' // removed, if a record of spoold 0.1.0 knows the file by its inode; else it runs

/** One row for each state; RECORDED and KICKED come on top. docs/spool-format.md has the same table. */
export const STATES: ReadonlyArray<readonly [state: number, past: Past]> = [
  [0x00, 'none'],
  [STARTED, 'died-alone'],
  [STARTED | BESIDE, 'died-beside'],
  [STARTED | ONCE, 'died-once'],
  [STARTED | DONE, 'done'],
  [STARTED | DONE | ONCE, 'done'],
  [STARTED | BURY, 'to-bury'],
  [STARTED | BURY | ONCE, 'to-bury'],
  [DONE, 'done-if-recorded'],
]

/** Of a state that is ours. The bits that a later step adds win over those before it. */
export function pastOf(state: number): Past {
  if ((state & STARTED) === 0) return (state & DONE) === 0 ? 'none' : 'done-if-recorded'
  if ((state & BURY) !== 0) return 'to-bury'
  if ((state & DONE) !== 0) return 'done'
  if ((state & ONCE) !== 0) return 'died-once'
  return (state & BESIDE) === 0 ? 'died-alone' : 'died-beside'
}

/** modifier2 as our mark; 0 when it has other bits: then it is somebody else's, and says nothing. */
export function ownState(modifier2: number): number {
  const known = (modifier2 & STARTED) === 0 ? AT_REST : OURS
  return (modifier2 & ~known) === 0 ? modifier2 : 0
}

const byte = Buffer.alloc(1)

/** What outlives a run: the rest is only about the run that ends. */
export function lasting(state: number): number {
  return state & (RECORDED | KICKED)
}

/** As it is now: a run may have marked it since it was claimed. */
export function readState(fd: number): number {
  return readSync(fd, byte, 0, 1, MODIFIER2_OFFSET) === 1 ? ownState(byte[0] ?? 0) : 0
}

/** One `pwrite`. The page cache outlives every process, so the mark survives `kill -9` of all of them. */
export function writeState(fd: number, state: number): void {
  byte[0] = state
  writeSync(fd, byte, 0, 1, MODIFIER2_OFFSET)
}
