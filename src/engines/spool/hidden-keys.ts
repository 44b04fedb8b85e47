import { closeSync, constants, fstatSync } from 'node:fs'
import { errnoOf } from '../../base/errors.js'
import { toFsPath } from '../../base/task/ref.js'
import { Hide } from '../../formats/protocol/hide.js'
import { lstatSync, openSafely, textOf, unlinkSync } from '../../system/files/anchored-path.js'
import { libc, libcFault } from '../../system/libc.js'
import { findState, makeState, writeWhole } from './state-directory.js'

const MAX_BYTES = 64 * 1024

/** The hidden keys in the configuration that a command was given, by the real path of the spool, a byte string. */
const configured = new Map<string, readonly string[]>()

/** Sets the hidden keys that a command knows from its configuration. @param spool its real path, a byte string */
export function configureHidden(spool: string, keys: readonly string[]): void {
  configured.set(spool, keys)
}

/** The descriptors of the lists that this process answers for, open and locked, by the real path of the spool. */
const held = new Map<string, number>()

/**
 * Writes to `.spoold/hide` whose values are hidden, a key per line, for commands that look at tasks without the configuration.
 * Where others could take that list away, or bring an older one back, an empty list says that nothing is hidden, and the list
 * is locked as long as this process answers for it. A failed write keeps no task from running.
 *
 * @param spool its real path, a byte string
 */
export function noteHiddenKeys(spool: string, keys: readonly string[]): void {
  letGo(spool)
  try {
    const text = keys.map(key => `${key}\n`).join('')
    const isOpen = isOpenToOthers(spool)
    if (text !== '' || isOpen) {
      const isAnswered = isOpen && hasLocks()
      if (isAnswered || textOfList(spool, false) !== text)
        writeWhole(`${makeState(spool)}/hide`, text, { flush: false })
      if (isAnswered) hold(spool, text)
      return
    }
    const state = findState(spool)
    if (state !== undefined) unlinkSync(toFsPath(`${state}/hide`))
  } catch {}
}

/**
 * Writes the list again if none can be trusted: `.spoold` was moved away, or the process that answered for the list has ended.
 */
export function renewHiddenKeys(spool: string, keys: readonly string[]): void {
  if (trustedText(spool) === undefined) noteHiddenKeys(spool, keys)
}

function letGo(spool: string): void {
  const fd = held.get(spool)
  held.delete(spool)
  if (fd !== undefined) closeSync(fd)
}

/** Locks the list, if it says what was written: another `.spoold` may have come in between. */
function hold(spool: string, text: string): void {
  const state = findState(spool)
  if (state === undefined) return
  const fd = openSafely(`${state}/hide`, constants.O_RDWR)
  let isHeld = false
  try {
    isHeld = textOf(fd) === text && libc().tryLock(fd)
  } finally {
    if (!isHeld) closeSync(fd)
  }
  if (isHeld) held.set(spool, fd)
}

/**
 * Returns what the daemon of a spool hides. That is everything if somebody else may have moved the list away, no process
 * answers for one, and no configuration was given.
 *
 * @param spool its real path, a byte string
 */
export function hiddenKeysOf(spool: string): Hide {
  const known = configured.get(spool)
  const text = trustedText(spool)
  if (text === undefined && known === undefined && isOpenToOthers(spool)) return Hide.everything
  return new Hide([...(known ?? []), ...(text ?? '').split('\n')])
}

/** True if others may rename `.spoold`: they may write to the spool, and no sticky bit keeps them to their own files. */
function isOpenToOthers(spool: string): boolean {
  const mode = lstatSync(toFsPath(`${spool}/.`))?.mode ?? 0
  return (mode & OTHERS_WRITE) !== 0 && (mode & STICKY) === 0
}

const OTHERS_WRITE = 0o022
const STICKY = 0o1000

function trustedText(spool: string): string | undefined {
  return textOfList(spool, isOpenToOthers(spool))
}

/**
 * Returns the text of the list; undefined if there is none, or none that can be trusted or read.
 *
 * @param isAnswered true to trust the list only if a process answers for it
 */
function textOfList(spool: string, isAnswered: boolean): string | undefined {
  let fd: number | undefined
  try {
    const state = findState(spool)
    if (state === undefined) return undefined
    fd = openSafely(`${state}/hide`, constants.O_RDONLY)
    const stats = fstatSync(fd)
    if (!stats.isFile() || stats.size > MAX_BYTES) return undefined
    return isAnswered && !isLocked(fd) ? undefined : textOf(fd)
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return undefined
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

function isLocked(fd: number): boolean {
  return hasLocks() && libc().isLocked(fd)
}

/** True if there are record locks. Without them, nobody answers for a list. */
function hasLocks(): boolean {
  return libcFault() === undefined
}
