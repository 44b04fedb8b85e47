import { accessSync, closeSync, constants, openSync, readdirSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Ref, toByteString, toFsPath } from '../../base/task/ref.js'
import type { Found, Holder } from '../../base/task/report.js'
import { toPairs } from '../../formats/protocol/vars.js'
import { holderOf, readLocks } from '../../system/files/lock-table.js'
import { inspectFile, SpoolView } from '../spool/admin/task-view.js'
import { timesSince } from '../spool/index/scanner.js'
import { hasUwsgiPrefix } from '../spool/names.js'
import { commandOf } from '../spool/neighbours.js'
import { dueAtMsOf, readBody } from '../spool/spool-file.js'

/**
 * Returns the tasks at the top level of a spool directory, including running and future ones, as uwsgi.spooler_jobs() lists
 * them.
 *
 * @throws the error of `readdir`
 */
export function listTasks(directory: string): Buffer[] {
  const entries = readdirSync(directory, { withFileTypes: true, encoding: 'latin1' as BufferEncoding })
  return entries
    .filter(entry => entry.isFile() && hasUwsgiPrefix(entry.name))
    .map(entry => Buffer.from(join(toByteString(directory), entry.name), 'latin1'))
    .filter(isUsable)
}

function isUsable(path: Buffer): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK)
    return true
  } catch {
    return false
  }
}

/**
 * Reads a task's body, then its keys and values in turn, without claiming it: uwsgi.spooler_get_task(). Undefined if
 * the file does not exist, is claimed, or is not a task.
 */
export function peekTask(path: string): Buffer[] | undefined {
  const { state, vars, bytes, bodyOffset } = inspectFile(toByteString(path), readLocks(), Date.now())
  if (vars === undefined || state === 'running') return undefined
  const items = toPairs(vars).flatMap(pair => [...pair])
  const fd = openSync(path, 'r')
  try {
    return [readBody(fd, bodyOffset, bytes - bodyOffset), ...items]
  } finally {
    closeSync(fd)
  }
}

/** Returns what is found at each ref now. Takes no lock, and changes nothing. @see Looker */
export function lookAtTasks(spool: string, refs: readonly Ref[]): Found[] {
  const view = new SpoolView(toByteString(spool))
  return refs.map(ref => {
    const task = view.view(ref)
    if (task === undefined) return 'gone'
    if (task.state === 'running') return 'locked'
    if (task.state === 'malformed' || task.state === 'incomplete' || task.state === 'unreadable')
      return 'unreadable'
    const isForLater = task.state === 'waiting' || task.state === 'retrying' || task.state === 'held'
    return isForLater ? Math.max(task.dueAtMs, task.file.dueAtMs) : 'due'
  })
}

/** Looks only at tasks whose files have changed since `sinceMs`, and opens only files whose mtime has come. @see LookAtLater */
export function lookAtLater(spool: string, refs: readonly Ref[], sinceMs: number): [number, Found][] {
  const nowMs = Date.now()
  const later: [number, Found][] = []
  const unclear: number[] = []
  for (const [place, ref] of refs.entries()) {
    const times = timesSince(spool, ref, sinceMs)
    if (times === undefined) continue
    const dueAtMs = dueAtMsOf(times.mtimeMs)
    if (dueAtMs > nowMs) later.push([place, dueAtMs])
    else unclear.push(place)
  }
  if (unclear.length === 0) return later // saves reading all locks of the system
  const found = lookAtTasks(
    spool,
    unclear.map(place => refs[place] ?? ''),
  )
  return [...later, ...unclear.map((place, i): [number, Found] => [place, found[i] ?? 'due'])]
}

/** Returns the process that has locked a task; undefined if there is none, or none that we may see. @param spool its real path */
export async function holderOfTask(spool: string, ref: Ref): Promise<Holder | undefined> {
  const stats = await stat(toFsPath(`${toByteString(spool)}/${ref}`)).catch(() => undefined)
  const pid = stats === undefined ? undefined : await holderOf(stats)
  return pid === undefined ? undefined : { pid, command: commandOf(pid) }
}
