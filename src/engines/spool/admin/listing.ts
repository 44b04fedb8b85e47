import { type Ref, toFsPath } from '../../../base/task/ref.js'
import { lstatSync } from '../../../system/files/anchored-path.js'
import { deadNameOf } from '../dead-letters.js'
import { createdAtMicros } from '../names.js'
import { recordNames } from '../records.js'
import { jsonNameOf, stateRoom } from '../state-directory.js'
import { inOrder, type Scan, visit, windowFor } from './in-order.js'
import { type SpoolView, sinceMsOf, type TaskView } from './task-view.js'

/**
 * The orders in which tasks can be listed:
 *
 *   run       in which they will start; those that wait for their time follow
 *   priority  by priority and arrival, whether they wait or not
 *   name      that of spooler-ordered = true
 *   age       the oldest first
 *   due       the next one first
 *   attempts  most failed runs first
 *   bytes     the largest first
 *   none      that of the directory
 */
export const SORTS = ['run', 'priority', 'name', 'age', 'due', 'attempts', 'bytes', 'none'] as const
export type Sort = (typeof SORTS)[number]

/** Which tasks of a spool are listed, and in which order. */
export interface ListedTasks {
  readonly sort: Sort
  readonly isReversed: boolean
  /** Tests the ref alone, before the task is read. */
  mayHave(ref: Ref): boolean
  has(task: TaskView): boolean
  /** Called for a part that could not be listed, for people. */
  failed(place: string, error: unknown): void
}

/** Takes one task. Returns false to end the listing. */
type Take = (task: TaskView) => boolean

type KeyOf = (task: TaskView, nowMs: number) => number
type VisitAll = (each: (ref: Ref) => boolean) => Promise<void>

/** The sort keys of the orders that need a look into the file; the smallest key comes first. */
const KEYS: Partial<Record<Sort, KeyOf>> = {
  age: (task, nowMs) => sinceMsOf(task, nowMs) ?? nowMs,
  due: ({ dueAtMs }) => dueAtMs,
  attempts: ({ letter, record }) => -((letter ?? record)?.attempts ?? 0),
  bytes: ({ file }) => -file.bytes,
}

/** Lists one spool, in bounded memory whatever its size. A task is read again when its turn comes. */
export class Listing {
  readonly #view: SpoolView
  readonly #plan: ListedTasks

  constructor(view: SpoolView, plan: ListedTasks) {
    this.#view = view
    this.#plan = plan
  }

  /** Lists the tasks that are not dead letters. @throws the file system's error if the spool cannot be listed */
  async living(take: Take): Promise<void> {
    const { sort } = this.#plan
    if (sort === 'run') return this.#inRunOrder(take)
    const visitAll = (each: (ref: Ref) => boolean) => this.#view.scan(each, this.#plan.failed)
    if (sort === 'priority') {
      const times = await runTimes(this.#view.spool)
      return this.#sorted(this.#scan(visitAll, times), take, true)
    }
    return this.#listed(visitAll, take)
  }

  /** Lists the dead letters. @throws the file system's error if that fails: only the spool's user may read them */
  dead(take: Take): Promise<void> {
    return this.#listed(each => this.#visitDead(each), take)
  }

  /** Lists in one of the orders that living tasks and dead letters share. */
  async #listed(visitAll: VisitAll, take: Take): Promise<void> {
    const { sort, mayHave } = this.#plan
    if (sort === 'none') return visitAll(ref => !mayHave(ref) || this.#taken(ref, take))
    const keyOf = KEYS[sort]
    const scan = this.#scan(visitAll, keyOf === undefined ? () => 0 : ref => this.#keyOf(ref, keyOf))
    return this.#sorted(scan, take)
  }

  /** Lists in run order. Tasks that wait for their time come last, in the order of that time; if reversed, they come first. */
  async #inRunOrder(take: Take): Promise<void> {
    const { isReversed } = this.#plan
    const visitAll = (each: (ref: Ref) => boolean) => this.#view.scan(each, this.#plan.failed)
    const times = await runTimes(this.#view.spool)
    const sort = { isReversed }
    const each = (ref: Ref) => this.#taken(ref, take)
    const scanWaiting = this.#scan(visitAll, ref => {
      const task = this.#look(ref)
      return task !== undefined && isWaiting(task) ? task.dueAtMs : undefined
    })
    if (isReversed && !(await visit(inOrder(scanWaiting, sort), each))) return
    const waiting = windowFor(sort)
    const due = inOrder(this.#scan(visitAll, times), { byPriority: true, isReversed })
    const isOver = !(await visit(due, ref => {
      const task = this.#look(ref)
      if (task === undefined) return true
      if (!isWaiting(task)) return take(task)
      waiting.add(ref, task.dueAtMs)
      return true
    }))
    if (!isOver && !isReversed) await visit(inOrder(scanWaiting, sort, waiting), each)
  }

  /**
   * Returns the key by which a task is sorted. Its file is read for the key, and once more when the task is listed: keeping
   * the views of a million tasks would take a gigabyte.
   */
  #keyOf(ref: Ref, keyOf: KeyOf): number | undefined {
    const arrivedMs = this.#plan.sort === 'age' ? this.#arrivalOf(ref) : undefined
    if (arrivedMs !== undefined) return arrivedMs
    const task = this.#look(ref)
    return task === undefined ? undefined : keyOf(task, this.#view.nowMs)
  }

  /** When a task arrived, epoch ms, if its name says so: then its file need not be read. */
  #arrivalOf(ref: Ref): number | undefined {
    if (deadNameOf(ref) !== undefined) return undefined
    const createdMs = (createdAtMicros(ref) ?? Number.NaN) / 1000
    return createdMs <= this.#view.nowMs ? createdMs : undefined
  }

  async #sorted(scan: Scan, take: Take, byPriority = false): Promise<void> {
    const refs = inOrder(scan, { byPriority, isReversed: this.#plan.isReversed })
    await visit(refs, ref => this.#taken(ref, take))
  }

  /** Returns a scan that offers the tasks that pass the filter for names, and that have a key. */
  #scan(visitAll: VisitAll, keyOf: (ref: Ref) => number | undefined): Scan {
    return offer =>
      visitAll(ref => {
        const key = this.#plan.mayHave(ref) ? keyOf(ref) : undefined
        if (key !== undefined) offer(ref, key)
        return true
      })
  }

  async #visitDead(each: (ref: Ref) => boolean): Promise<void> {
    for await (const ref of this.#view.dead()) if (!each(ref)) return
  }

  /** The task, if it is still there and wanted. */
  #look(ref: Ref): TaskView | undefined {
    const task = this.#view.view(ref)
    return task !== undefined && this.#plan.has(task) ? task : undefined
  }

  #taken(ref: Ref, take: Take): boolean {
    const task = this.#look(ref)
    return task === undefined || take(task)
  }
}

/** True if the task comes after those that may run now. */
export function isWaiting({ state }: TaskView): boolean {
  return state === 'waiting' || state === 'retrying'
}

/**
 * Returns a function that says when a task became runnable, in µs, as assumed by a daemon that starts now and finds every
 * task due: together with the priority, this gives the order in which tasks run. For a name that contains no time, the ctime
 * stands in for the moment at which a daemon first saw the file.
 *
 * @param spool its real path, a byte string
 */
async function runTimes(spool: string): Promise<(ref: Ref) => number> {
  const hasRecord = await recordTest(spool)
  const nowMicros = Date.now() * 1000
  return ref => {
    const stats = () => lstatSync(toFsPath(`${spool}/${ref}`))
    if (hasRecord(ref)) return (stats()?.mtimeMs ?? 0) * 1000
    const created = createdAtMicros(ref)
    return created !== undefined && created <= nowMicros ? created : (stats()?.ctimeMs ?? 0) * 1000
  }
}

/** More names than this are not kept in memory: each record is looked up instead. */
const MAX_KEPT = 20_000

/** Returns a test of whether a task has a record, because it has run or is held, as far as this user may see that. */
async function recordTest(spool: string): Promise<(ref: Ref) => boolean> {
  const names = new Set<string>()
  try {
    for await (const name of recordNames(spool)) if (names.add(name).size >= MAX_KEPT) break
  } catch {
    // belongs to another user; the task names still give an order
  }
  if (names.size === 0) return () => false
  if (names.size < MAX_KEPT) return ref => names.has(jsonNameOf(ref))
  return ref => lstatSync(toFsPath(`${stateRoom(spool, 'records')}/${jsonNameOf(ref)}`)) !== undefined
}
