import { Slices } from '../../../base/each.js'
import { type Ref, toFsPath } from '../../../base/task/ref.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import { DeadLetters, deadPathOf } from '../../../engines/spool/dead-letters.js'
import { Records, recordedRefs } from '../../../engines/spool/records.js'
import { lstatSync } from '../../../system/files/anchored-path.js'

/** The refs of a listing. Of their files, only those of one page are opened. */
export interface Names {
  readonly refs: readonly Ref[]
  /** True if the listing stopped early, because there were more than MOST_NAMES names. */
  readonly isCut: boolean
}

/** Part of a listing. */
export interface Page {
  readonly tasks: readonly TaskView[]
  /** The place in the listing where the page begins. `next`: where the next one begins; null: this is the last. */
  readonly from: number
  readonly next: number | null
  /** How many files were opened for the page, or jobs read from Redis. */
  readonly opened: number
}

/** The most names that a listing has. */
const MOST_NAMES = 10_000
export const PAGE_SIZE = 50
/** A page opens no more tasks than this, however many of them it passes over. */
export const MOST_OPENED = 500

/** Returns the dead letters, the newest first. Only the names and the times of the files are read. */
export async function deadNames(spool: string): Promise<Names> {
  const letters = new DeadLetters(spool)
  // the ctime is the time of the burial: it renames the file, and nothing changes the file later
  const buriedAtMs = (name: Ref) => lstatSync(toFsPath(letters.pathOf(name)))?.ctimeMs ?? 0
  const { refs, isCut } = await latestFirst(letters.names(), buriedAtMs)
  return { refs: refs.map(deadPathOf), isCut }
}

/** Returns the tasks that have a record, because they failed or are held; the latest change first. */
export function recordedNames(spool: string): Promise<Names> {
  const records = new Records(spool)
  return latestFirst(recordedRefs(spool), ref => records.writtenAt(ref))
}

async function latestFirst(refs: AsyncIterable<Ref>, atMsOf: (ref: Ref) => number): Promise<Names> {
  const found: Array<{ readonly ref: Ref; readonly atMs: number }> = []
  const slices = new Slices()
  let isCut = false
  for await (const ref of refs) {
    isCut = found.length === MOST_NAMES
    if (isCut) break
    found.push({ ref, atMs: atMsOf(ref) })
    await slices.rest()
  }
  return { refs: found.sort((a, b) => b.atMs - a.atMs).map(({ ref }) => ref), isCut }
}

/**
 * Returns a page of a listing: opens tasks from a place on until the page is full, or MOST_OPENED are opened. Tasks that are gone
 * or not wanted are passed over.
 *
 * @param from the index of the first ref
 */
export async function pageOf(
  look: (ref: Ref) => TaskView | undefined | Promise<TaskView | undefined>,
  refs: readonly Ref[],
  from: number,
  isWanted: (task: TaskView) => boolean = () => true,
): Promise<Page> {
  const tasks: TaskView[] = []
  let at = from
  for (; at < refs.length && tasks.length < PAGE_SIZE && at - from < MOST_OPENED; at++) {
    const task = await look(refs[at] ?? '')
    if (task !== undefined && isWanted(task)) tasks.push(task)
  }
  return { tasks, from, next: at < refs.length ? at : null, opened: at - from }
}
