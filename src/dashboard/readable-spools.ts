import { closeSync, constants } from 'node:fs'
import { openSafely } from '../files/quiet-open.js'
import type { TaskAction } from '../operate/actions.js'
import type { SelectionOptions } from '../operate/selection.js'
import type { Hide } from '../protocol/hide.js'
import { type AuditEntry, readAudit } from '../spool/admin/audit.js'
import { hiddenTask } from '../spool/admin/hidden-task.js'
import type { TaskView } from '../spool/admin/task-view.js'
import { inDirectoryOf } from '../spool/priority-directory.js'
import { readBody } from '../spool/spool-file.js'
import { baseName, type Ref, toByteString } from '../task/ref.js'
import type { Form } from './access/form.js'
import { withoutPayload } from './access/payload.js'
import type { Visitor } from './access/visitor.js'
import { selectionFor } from './filter.js'
import { type Meant, meantBy } from './meant.js'
import { PageError } from './page-error.js'
import { refIn, type SpoolPlace, type Spools, urlTextOf } from './spools.js'

/** More of a body is not read at once. */
const MOST_BODY_BYTES = 1024 * 1024
/** Nor more files for one page of what was found. */
const MOST_LOOKED_AT = 20_000

interface Listed {
  readonly tasks: readonly TaskView[]
  /** False: there are more. */
  readonly isWhole: boolean
}

/** The spools, as far as one visitor may see them. */
export class ReadableSpools {
  readonly all: readonly ReadableSpool[]

  constructor(spools: Spools, visitor: Visitor, hide: Hide) {
    this.all = spools.all.map(place => new ReadableSpool(place, visitor, hide))
  }

  /** @param id as in a URL @throws PageError */
  get(id: string): ReadableSpool {
    const found = this.all.find(each => each.id === id)
    if (found === undefined) throw new PageError(404, 'there is no such spool here')
    return found
  }
}

export class ReadableSpool {
  readonly #place: SpoolPlace
  readonly #visitor: Visitor
  readonly #hide: Hide

  constructor(place: SpoolPlace, visitor: Visitor, hide: Hide) {
    this.#place = place
    this.#visitor = visitor
    this.#hide = hide
  }

  /** What URLs call it. */
  get id(): string {
    return this.#place.id
  }

  /** Its real path. */
  get directory(): string {
    return this.#place.directory
  }

  /** The path of a task's page, below which its acts are. */
  urlOf(ref: Ref): string {
    return `/spools/${this.id}/tasks/${this.textOf(ref)}`
  }

  /** What URLs and forms call a task. */
  textOf(ref: Ref): string {
    return urlTextOf(ref)
  }

  /** @param urlText as `urlOf` has it @throws PageError */
  task(urlText: string): TaskView {
    const ref = refIn(this.#place, urlText)
    const task = ref === undefined ? undefined : this.#place.view().view(ref)
    if (task === undefined) throw new PageError(404, 'this task is gone: it has run, or was removed')
    return this.#seen(task)
  }

  /** The beginning of a task's body, without what is hidden: all of it, if that cannot be known. @throws PageError, and the file system's error */
  body({ ref, file: { bodyOffset, bytes } }: TaskView, most = MOST_BODY_BYTES): Buffer {
    if (!this.#visitor.mayReadPayload) throw new PageError(403, 'the payload of tasks is not for you')
    const wanted = Math.min(bytes - bodyOffset, most, MOST_BODY_BYTES)
    return inDirectoryOf(toByteString(this.directory), ref, directory => {
      const fd = openSafely(`${directory}/${baseName(ref)}`, constants.O_RDONLY)
      try {
        return this.#hide.body(readBody(fd, bodyOffset, wanted))
      } finally {
        closeSync(fd)
      }
    })
  }

  /** Looks at tasks, as they are now. */
  look(): (ref: Ref) => TaskView | undefined {
    const view = this.#place.view()
    return ref => {
      const task = view.view(ref)
      return task === undefined ? undefined : this.#seen(task)
    }
  }

  /**
   * The first tasks that a filter selects, in the order of the directory, and then dead letters. Stops after so many files.
   *
   * @throws PageError, SpooldError USAGE for a filter that makes no sense
   */
  async find(filter: SelectionOptions, most: number): Promise<Listed> {
    const selection = selectionFor(filter, this.#visitor, this.#hide)
    const { states } = selection
    const view = this.#place.view()
    const tasks: TaskView[] = []
    let looked = 0
    let isWhole = true
    const take = (ref: Ref): boolean => {
      if (!selection.mayHave(ref)) return true
      isWhole = tasks.length < most && looked++ < MOST_LOOKED_AT
      const task = isWhole ? view.view(ref) : undefined
      if (task !== undefined && selection.has(task)) tasks.push(this.#seen(task))
      return isWhole
    }
    if (states === undefined || states.some(state => state !== 'dead')) await view.scan(take, () => {})
    if (isWhole && (states === undefined || states.includes('dead')))
      for await (const ref of view.dead()) if (!take(ref)) break
    return { tasks, isWhole }
  }

  /** Which tasks an action would be done to. @throws as `meantBy` */
  meant(action: Pick<TaskAction, 'states'>, form: Form): Promise<Meant> {
    return meantBy(form, action, this.#place, this.#visitor, this.#hide)
  }

  /** The last lines of the audit, the newest first. */
  audit(most: number): AuditEntry[] {
    const entries = readAudit(toByteString(this.directory), most)
    if (this.#visitor.mayReadPayload) return entries
    return entries.map(({ filter: _filter, result: _result, ...entry }) => entry) // a filter may have values
  }

  #seen(task: TaskView): TaskView {
    return this.#visitor.mayReadPayload ? hiddenTask(task, this.#hide) : withoutPayload(task)
  }
}
