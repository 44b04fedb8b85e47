import type { TaskAction } from '../../admin/operate/actions.js'
import type { SelectionOptions } from '../../admin/operate/selection.js'
import type { Ref } from '../../base/task/ref.js'
import { type AuditEntry, seenEntry } from '../../engines/spool/admin/audit.js'
import { seenTask, type TaskState, type TaskView } from '../../engines/spool/admin/task-view.js'
import type { ListingPlan, TaskStore } from '../../engines/task-store.js'
import type { Sight } from '../../formats/protocol/sight.js'
import type { Form } from './access/form.js'
import { selectionFor } from './filter.js'
import { type Meant, meantBy } from './meant.js'
import { MOST_OPENED, PAGE_SIZE, type Page } from './models/listings.js'
import { PageError } from './page-error.js'
import { refIn, type SpoolPlace, type Spools, urlTextOf } from './spools.js'

/** The most bytes of a body that are read at once, or downloaded. */
export const MOST_BODY_BYTES = 1024 * 1024
/** `find` looks at no more tasks than this, however few of them its filter selects. */
export const MOST_LOOKED_AT = 20_000

interface Listed {
  readonly tasks: readonly TaskView[]
  /** False if the search stopped early: there may be more. */
  readonly isWhole: boolean
}

/** The spools, as one visitor may see them. */
export class ReadableSpools {
  readonly all: readonly ReadableSpool[]

  constructor(spools: Spools, sight: Sight) {
    this.all = spools.all.map(place => new ReadableSpool(place, sight))
  }

  /** @param id the spool's name in URLs @throws PageError if there is none */
  get(id: string): ReadableSpool {
    const found = this.all.find(each => each.id === id)
    if (found === undefined) throw new PageError(404, 'there is no such spool here')
    return found
  }
}

export class ReadableSpool {
  readonly #place: SpoolPlace
  readonly #sight: Sight

  constructor(place: SpoolPlace, sight: Sight) {
    this.#place = place
    this.#sight = sight
  }

  /** The name of the spool in URLs. */
  get id(): string {
    return this.#place.id
  }

  /** The real path of the spool, or its name on Redis. */
  get directory(): string {
    return this.#place.directory
  }

  /** Returns the path of a task's page. The paths of the task's actions are below it. */
  urlOf(ref: Ref): string {
    return `/spools/${this.id}/tasks/${this.textOf(ref)}`
  }

  /** Returns the text for a task in URLs and forms. */
  textOf(ref: Ref): string {
    return urlTextOf(ref)
  }

  /** Returns a task. @param urlText the text for it in URLs @throws PageError if the task is gone */
  async task(urlText: string): Promise<TaskView> {
    const ref = refIn(this.#place, urlText)
    const task = ref === undefined ? undefined : await (await this.look())(ref)
    if (task === undefined) throw new PageError(404, 'this task is gone: it has run, or was removed')
    return task
  }

  /**
   * Returns the beginning of a task's body, with its hidden values replaced. With keys to hide, bytes that are not JSON, such as
   * those of a cut body, are hidden as a whole.
   *
   * @throws PageError if the visitor may not read payloads; the file system's error
   */
  async body(task: TaskView, most = MOST_BODY_BYTES): Promise<Buffer> {
    const { mayReadPayload, hide } = this.#sight
    if (!mayReadPayload) throw new PageError(403, 'you may not read the payload of tasks')
    return hide.body(await (await this.#place.open()).body(task, Math.min(most, MOST_BODY_BYTES)))
  }

  /** True if the spool is on Redis: its tasks are in no directory, and `part` returns a page of them. */
  get isOnRedis(): boolean {
    return this.#place.isOnRedis
  }

  /**
   * Returns a page of the tasks that may be in these states, from a place in the store's own order on. Tasks that are not wanted
   * are passed over.
   *
   * @throws Error for people
   */
  async part(
    states: readonly TaskState[],
    from: number,
    isWanted: (task: TaskView) => boolean,
    isReversed = false,
  ): Promise<Page> {
    const store = await this.#place.open()
    const tasks: TaskView[] = []
    for (let at = from; ; ) {
      const found = await store.part?.(states, at, PAGE_SIZE, isReversed)
      if (found === undefined) throw new Error('this spool has no such listing')
      for (const [i, task] of found.tasks.entries()) {
        if (!isWanted(task)) continue
        if (tasks.length === PAGE_SIZE) return { tasks, from, next: at + i, opened: at + i - from }
        tasks.push(this.#seen(task))
      }
      at += found.looked
      if (found.looked < PAGE_SIZE) return { tasks, from, next: null, opened: at - from }
      if (at - from >= MOST_OPENED) return { tasks, from, next: at, opened: at - from }
    }
  }

  /** Returns a function that looks at a task as it is now. */
  async look(): Promise<(ref: Ref) => Promise<TaskView | undefined>> {
    const store = await this.#open()
    return async ref => {
      const task = await store.view(ref)
      return task === undefined ? undefined : this.#seen(task)
    }
  }

  /**
   * Returns the first tasks that a filter selects: in the order of the directory, or in run order on Redis; dead letters last.
   * Looks at MOST_LOOKED_AT tasks at most.
   *
   * @throws PageError, SpooldError USAGE for a filter that makes no sense
   */
  async find(filter: SelectionOptions, most: number): Promise<Listed> {
    const { states, mayHave, has } = selectionFor(filter, this.#sight)
    const tasks: TaskView[] = []
    let looked = 0
    let isWhole = true
    const plan: ListingPlan = {
      ...{ states, sort: 'none', isReversed: false, limit: most, mayHave },
      has: () => true, // so that those are counted, too, that the filter leaves out
      failed() {}, // nor does the daemon run what it cannot list
    }
    await (await this.#open()).list(plan, task => {
      isWhole = tasks.length < most && looked++ < MOST_LOOKED_AT
      if (isWhole && has(task)) tasks.push(this.#seen(task))
      return isWhole
    })
    return { tasks, isWhole }
  }

  #open(): Promise<TaskStore> {
    return this.#place.open({ asksDaemons: true })
  }

  /** Returns the tasks to which an action would be done. @throws as `meantBy` */
  meant(action: Pick<TaskAction, 'states'>, form: Form): Promise<Meant> {
    return meantBy(form, action, this.#place, this.#sight)
  }

  /** Returns the last lines of the audit, the newest first. */
  async audit(most: number): Promise<AuditEntry[]> {
    const entries = await (await this.#place.open()).readAudit(most)
    return entries.map(entry => seenEntry(entry, this.#sight))
  }

  #seen(task: TaskView): TaskView {
    return seenTask(task, this.#sight)
  }
}
