import { readSync, writeSync } from 'node:fs'
import { MODIFIER2_OFFSET } from '../protocol/packet.js'

/**
 * Our write-ahead mark: the packet's fourth byte, modifier2, which uWSGI writes as 0 and never reads in a spool file.
 * It is set in place through the locked descriptor, so it moves with the file and needs no clean-up.
 *
 * Where the file system keeps access times (spool/probe finds out), the first run of a file needs no byte: the kernel
 * marks it, because the read that brings the packet moves the atime past the mtime. Whoever finds a file read but not
 * marked cannot know whether it was run, or only looked at; it is a suspect, and from then on the byte is written.
 */
export const STARTED = 0x80
/** A record of earlier failures exists. */
export const RECORDED = 0x01
/** Ran to SPOOL_OK, but the file could not be removed: see its record, and if that agrees only remove it. */
export const DONE = 0x02
/** With STARTED: somebody had read it before this run; should this run crash too, that was the first. */
export const SUSPECT = 0x04
/** `spoold kick`: the packet's `at` does not count any more. */
export const KICKED = 0x08
/** With STARTED: at most once. Should this run not be settled, it is not run again. */
export const ONCE = 0x10

const OURS = STARTED | RECORDED | DONE | SUSPECT | KICKED | ONCE

/** modifier2 as our mark; 0 when it has other bits: then it is somebody else's, and says nothing. */
export function ownState(modifier2: number): number {
  return (modifier2 & ~OURS) === 0 ? modifier2 : 0
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
