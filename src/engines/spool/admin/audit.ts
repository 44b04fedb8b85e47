import { closeSync, constants, fdatasyncSync, fstatSync, readSync, writeSync } from 'node:fs'
import { quietly } from '../../../base/errors.js'
import { hasFields } from '../../../base/json-guard.js'
import { displayName, type Ref } from '../../../base/task/ref.js'
import { HIDDEN } from '../../../formats/protocol/hide.js'
import { ownersSight, type Sight } from '../../../formats/protocol/sight.js'
import {
  lstatSync,
  openSync,
  readdirSync,
  renameSync,
  unlinkSync,
} from '../../../system/files/anchored-path.js'
import { hiddenKeysOf } from '../hidden-keys.js'
import { findState, makeState } from '../state-directory.js'

/** One line of `.spoold/audit`: what somebody is about to do in a spool, or what that led to. */
export interface AuditEntry {
  /** Epoch ms. */
  readonly at: number
  readonly who: string
  /** The role that says how far the rights of `who` go; `owner` for the command line. */
  readonly role: string
  readonly action: string
  /** The name of the task, as text; of several tasks, their names with spaces between them. */
  readonly task?: string
  /** In place of `task`, what selects the tasks, as JSON. It may contain values of tasks. */
  readonly filter?: string
  /** How many tasks the action is about, as far as known. */
  readonly count?: number
  /** What the action led to. Absent in the line that is written before the action begins. */
  readonly result?: string
}

/** A larger audit file is put aside; KEPT of those remain beside the current file. */
const MAX_BYTES = 4 * 1024 * 1024
const KEPT = 4
const OLD = /^audit-\d+$/
const MAX_TEXT_CHARS = 500
/** How many tasks a line names at most. A name has 255 bytes at most. */
const MOST_NAMED = 50
const MAX_NAMES_CHARS = MOST_NAMED * 256
/** How much of the end of a file is read: enough for a line with all its fields at their longest. */
const TAIL_BYTES = 256 * 1024
const APPEND = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK

/** Returns the names of tasks as text: if they are many, of the first MOST_NAMED. */
export function namesForAudit(refs: readonly Ref[]): string {
  return refs.slice(0, MOST_NAMED).map(displayName).join(' ')
}

/**
 * Appends a line, which is on disk when this returns.
 *
 * @param spool its real path, a byte string
 * @throws Error why it cannot be written
 */
export function writeAudit(spool: string, entry: AuditEntry): void {
  const state = makeState(spool)
  const path = `${state}/audit`
  const fd = openSync(path, APPEND, 0o600)
  try {
    const { size, ino } = fstatSync(fd)
    const line = `${size > 0 && !endsLine(fd, size) ? '\n' : ''}${JSON.stringify(seenEntry(entry, ownersSight(hiddenKeysOf(spool))), shortened)}\n`
    if (writeSync(fd, line) < Buffer.byteLength(line))
      throw new Error('the audit has no room for a whole line')
    fdatasyncSync(fd)
    if (size > MAX_BYTES) putAside(state, ino)
  } finally {
    closeSync(fd)
  }
}

/** True if the file's last line is complete: a full disk may have cut it. */
function endsLine(fd: number, size: number): boolean {
  const last = Buffer.alloc(1)
  readSync(fd, last, 0, 1, size - 1)
  return last[0] === 10
}

function shortened(key: string, value: unknown): unknown {
  const most = key === 'task' ? MAX_NAMES_CHARS : MAX_TEXT_CHARS
  return typeof value === 'string' && value.length > most ? `${value.slice(0, most)}…` : value
}

/**
 * Renames the audit file to a name of its own, later than those of the others: of two processes that do this at once, neither
 * removes what the other one has put aside.
 */
function putAside(state: string, ino: number): void {
  try {
    if (lstatSync(`${state}/audit`)?.ino !== ino) return
    const last = Number(oldNames(state).at(-1)?.slice('audit-'.length) ?? 0)
    renameSync(`${state}/audit`, `${state}/audit-${Math.max(Date.now(), last + 1)}`)
    for (const name of oldNames(state).slice(0, -KEPT)) unlinkSync(`${state}/${name}`)
  } catch {} // the next line tries again
}

/** Returns the names of the files that were put aside, the oldest first. */
function oldNames(state: string): string[] {
  return readdirSync(state)
    .filter(name => OLD.test(name))
    .sort()
}

/**
 * Returns the last entries, the newest first, out of the end of the current file and of the one before it.
 *
 * @param spool its real path, a byte string
 */
export function readAudit(spool: string, most: number): AuditEntry[] {
  const state = findState(spool)
  if (state === undefined) return []
  const texts = [...oldNames(state).slice(-1), 'audit'].map(name => tailOf(`${state}/${name}`))
  return texts.join('').split('\n').flatMap(parsed).slice(-most).reverse()
}

function tailOf(path: string): string {
  if (lstatSync(path)?.isFile() !== true) return ''
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const { size } = fstatSync(fd)
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES))
    const read = readSync(fd, bytes, 0, bytes.length, size - bytes.length)
    return bytes.toString('utf8', 0, read)
  } finally {
    closeSync(fd)
  }
}

/** Returns the entry of a line; none if the line is cut, or not one that we wrote. */
function parsed(line: string): AuditEntry[] {
  const value = quietly<unknown>(() => JSON.parse(line))
  return isAuditEntry(value) ? [value] : []
}

/** Returns an entry as somebody may see it: the filter and the result may contain values of tasks. */
export function seenEntry(entry: AuditEntry, { mayReadPayload, hide }: Sight): AuditEntry {
  const { filter, result } = entry
  if (mayReadPayload)
    return { ...hide.texts(entry), ...(filter === undefined ? {} : { filter: hide.filter(filter) }) }
  const filterSeen = filter === undefined ? {} : { filter: HIDDEN }
  return { ...entry, ...filterSeen, ...(result === undefined ? {} : { result: HIDDEN }) }
}

export function isAuditEntry(value: unknown): value is AuditEntry {
  return hasFields(
    value,
    { at: 'time', who: 'text', role: 'text', action: 'text' },
    { task: 'text', filter: 'text', count: 'count', result: 'text' },
  )
}
