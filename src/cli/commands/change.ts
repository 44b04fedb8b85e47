import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { readLocks } from '../../files/lock-table.js'
import { type Changed, change, type OpenSpool, openSpool, type TargetFile } from '../../spool/admin/change.js'
import { SpoolView, type TaskState, type TaskView } from '../../spool/admin/task-view.js'
import { displayName, type Ref, toByteString } from '../../task/ref.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { type IniOptions, pathsOf } from '../ini-spools.js'
import type { Output } from '../output.js'
import { Progress } from '../progress.js'
import { jsonBytes, terminalName } from '../render.js'
import { type Selection, type SelectionOptions, selectionOf } from '../selection.js'
import { parseTaskPath, type TaskPath } from '../task-paths.js'

export interface ChangeOptions extends SelectionOptions, IniOptions {
  readonly all?: boolean
  readonly dryRun?: boolean
  readonly quiet?: boolean
  readonly json?: boolean
}

/** A command that changes tasks. */
export interface Action {
  /** Its name on the command line. */
  readonly command: string
  /** For people: `remove`, and `removed`. */
  readonly verb: string
  readonly done: string
  /** The default states if a whole spool is named; running tasks among them are reported and left alone. */
  readonly states: readonly TaskState[]
  /** Whether it also applies to dead letters, if they are selected. */
  readonly isForDead: boolean
  /** The spool that the tasks are moved to, for output; undefined if they stay. */
  readonly target?: string
  /** Called once before the first change, with the identity that makes the changes. */
  prepare?(): Promise<void>
  act(at: OpenSpool, file: TargetFile): Changed
}

/**
 * Changes the named tasks, or the tasks of whole spools that the filters select. Reports each, changed or not.
 *
 * @returns 0, or 1 if something could not be done
 */
export async function changeTasks(
  paths: readonly string[],
  options: ChangeOptions,
  action: Action,
  { output, ownProcess }: CommandContext,
): Promise<number> {
  output.purpose = options.dryRun === true ? 'look' : 'change'
  const selection = selectionOf(options)
  const report = new ChangeReport(action, options, output)
  const taskPaths = parseTaskPaths(
    pathsOf(paths, options).map(onlyOne),
    report,
    ownProcess.part === undefined,
  )
  const whole = taskPaths.find(({ ref }) => ref === undefined)
  if (whole !== undefined && selection.isAll && options.all !== true)
    throw new SpooldError('USAGE', `which tasks in ${whole.shown}? Use filters, or --all`)
  const groups = bySpool(taskPaths)
  const progress = new Progress(output, 'tasks', options.quiet !== true)
  progress.expect(taskPaths.filter(({ ref }) => ref !== undefined).length)
  return asOwners(ownProcess, [...groups.keys()], async spools => {
    if (options.dryRun !== true) await action.prepare?.()
    for (const spool of spools) {
      const members = groups.get(spool) ?? []
      try {
        await changeIn(spool, members, { selection, options, action, report, progress })
      } catch (error) {
        report.fault(refusalOf(error, members[0]?.shown ?? spool))
      }
    }
    return report.end()
  })
}

function onlyOne(paths: readonly string[]): string {
  const [path = '', ...others] = paths
  if (others.length === 0) return path
  throw new SpooldError('USAGE', `several tasks have this name: ${paths.join(', ')}; give the path of one`)
}

/** Why a whole spool was refused; the next spool is processed all the same. */
function refusalOf(error: unknown, shown: string): string {
  if (error instanceof SpooldError) return `[${error.code}] ${error.message}`
  if (errnoOf(error) === undefined) throw error
  return `${shown}: ${messageOf(error)}`
}

/** @param isFirst this is the first process of the command, so it reports faulty paths */
function parseTaskPaths(paths: readonly string[], report: ChangeReport, isFirst: boolean): TaskPath[] {
  return paths.flatMap(path => {
    try {
      return parseTaskPath(path)
    } catch (error) {
      if (error instanceof SpooldError && error.code === 'USAGE') throw error
      if (isFirst) report.fault(messageOf(error))
      return []
    }
  })
}

function bySpool(taskPaths: readonly TaskPath[]): Map<string, TaskPath[]> {
  const groups = new Map<string, TaskPath[]>()
  for (const taskPath of taskPaths) {
    const members = groups.get(taskPath.spool) ?? []
    members.push(taskPath)
    groups.set(taskPath.spool, members)
  }
  return groups
}

interface Order {
  readonly selection: Selection
  readonly options: ChangeOptions
  readonly action: Action
  readonly report: ChangeReport
  readonly progress: Progress
}

async function changeIn(spool: string, taskPaths: readonly TaskPath[], order: Order): Promise<void> {
  const { selection, options, action, report, progress } = order
  const at = options.dryRun === true ? undefined : await openSpool(spool)
  const view = new SpoolView(toByteString(spool), readLocks(), Date.now())
  for (const taskPath of taskPaths)
    for await (const ref of candidates(taskPath, view, order)) {
      progress.step()
      if (!selection.mayHave(ref)) continue
      const task = view.view(ref)
      const fault = (text: string) => report.fault(`${pathOf(taskPath.shown, ref)} ${text}`)
      if (task === undefined) {
        if (taskPath.ref !== undefined) fault('does not exist')
      } else if (matches(task, taskPath, order)) report.add(taskPath, ref, perform(at, task, action))
      else if (task.file.isUnread === true)
        fault(`was left alone, because it cannot be read: ${task.file.detail}`)
    }
}

async function* candidates(
  taskPath: TaskPath,
  view: SpoolView,
  { selection, action, progress }: Order,
): AsyncGenerator<Ref> {
  if (taskPath.ref !== undefined) return yield taskPath.ref
  const states = selection.states ?? action.states
  const failed = (prefix: string, error: unknown) => {
    throw new SpooldError(
      'SPOOL_UNUSABLE',
      `${taskPath.shown}/${displayName(prefix)} cannot be listed: ${messageOf(error)}`,
    )
  }
  const refs: Ref[] = [] // all of them first: the changes would change the listing
  if (states.some(state => state !== 'dead')) await view.scan(ref => refs.push(ref) > 0, failed)
  progress.expect(refs.length)
  if (states.includes('dead') && progress.isShown) for await (const _ref of view.dead()) progress.expect(1)
  yield* refs
  if (states.includes('dead')) yield* view.dead()
}

/** Selected by its path, by a state that was asked for, or by one of the command's default states. */
function matches(task: TaskView, { ref }: TaskPath, { selection, action }: Order): boolean {
  if (!selection.has(task)) return false
  return ref !== undefined || selection.states !== undefined || action.states.includes(task.state)
}

type Result = Changed | { readonly kind: 'would' }

function perform(at: OpenSpool | undefined, { ref, state }: TaskView, action: Action): Result {
  if (state === 'dead' && !action.isForDead)
    return { kind: 'refused', detail: 'it is a dead letter: requeue it first' }
  if (at === undefined) return state === 'running' ? { kind: 'running' } : { kind: 'would' }
  try {
    return change(at, ref, file => action.act(at, file))
  } catch (error) {
    return { kind: 'refused', detail: messageOf(error) }
  }
}

/** Reports the result for each task, and keeps the exit code. */
class ChangeReport {
  readonly #action: Action
  readonly #options: ChangeOptions
  readonly #output: Output
  #exitCode = 0
  #count = 0

  constructor(action: Action, options: ChangeOptions, output: Output) {
    this.#action = action
    this.#options = options
    this.#output = output
  }

  add(taskPath: TaskPath, ref: Ref, result: Result): void {
    this.#count++
    if (this.#options.json === true)
      this.#output.line(JSON.stringify(asJson(this.#action, taskPath, ref, result)))
    const path = pathOf(taskPath.shown, ref)
    const { verb, done, target = taskPath.shown } = this.#action
    switch (result.kind) {
      case 'would':
        return this.#say(`would ${verb} ${path}`)
      case 'done':
        return this.#say(
          `${done} ${path}${result.to === undefined ? '' : ` to ${pathOf(target, result.to)}`}`,
        )
      case 'gone':
        return this.#say(`${path} is gone: it has run, or was removed`)
      case 'running':
        return this.fault(`${path} is running; it was left alone`)
      case 'refused':
        return this.fault(`${path}: ${result.detail}`)
    }
  }

  fault(text: string): void {
    this.#count++
    this.#exitCode = 1
    this.#output.complain(text)
  }

  end(): number {
    if (this.#count === 0 && this.#options.quiet !== true) this.#output.complain('no task fits')
    return this.#exitCode
  }

  #say(text: string): void {
    if (this.#options.quiet !== true && this.#options.json !== true) this.#output.line(text)
  }
}

function pathOf(directory: string, ref: Ref): string {
  return terminalName(Buffer.from(`${toByteString(directory)}/${ref}`, 'latin1'))
}

function asJson({ command }: Action, { shown: spooler }: TaskPath, ref: Ref, result: Result) {
  const name = jsonBytes(Buffer.from(ref, 'latin1'))
  const { kind, ...rest } = result
  const to =
    'to' in result && result.to !== undefined ? { to: jsonBytes(Buffer.from(result.to, 'latin1')) } : {}
  return { command, spooler, name, result: kind, ...rest, ...to }
}
