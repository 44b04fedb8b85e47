import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { readLocks } from '../../files/lock-table.js'
import { type Selection, selectionOf } from '../../operate/selection.js'
import { namesForAudit } from '../../spool/admin/audit.js'
import { type Changed, change, type OpenSpool, openSpool } from '../../spool/admin/change.js'
import { SpoolView, type TaskView } from '../../spool/admin/task-view.js'
import { displayName, type Ref, toByteString } from '../../task/ref.js'
import { asOwners } from '../acting-owner.js'
import { audit } from '../audit.js'
import { type Action, type ChangeOptions, ChangeReport, pathOf, type Result } from '../change-report.js'
import type { CommandContext } from '../context.js'
import { pathsOf } from '../ini-spools.js'
import { Progress } from '../progress.js'
import { parseTaskPath, type TaskPath } from '../task-paths.js'

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
  if (selection.states?.includes('parked') === true)
    throw new SpooldError(
      'USAGE',
      '--state parked: only ls can tell; for this command these tasks are due: use --state due with --task NAME or --key KEY=VALUE',
    )
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
      const begin = () => audit(spool, aboutOf(members, options, action), output)
      try {
        await changeIn(spool, members, { selection, options, action, report, progress, begin })
      } catch (error) {
        report.fault(refusalOf(error, members[0]?.shown ?? spool))
      }
    }
    return report.end()
  })
}

function aboutOf(taskPaths: readonly TaskPath[], options: ChangeOptions, { command, target }: Action) {
  const { all: _all, dryRun: _dryRun, quiet: _quiet, json: _json, ini: _ini, ...filter } = options
  const refs = taskPaths.flatMap(({ ref }) => ref ?? [])
  const isWhole = refs.length < taskPaths.length
  const isFiltered = isWhole || Object.keys(filter).length > 0
  return {
    action: target === undefined ? command : `${command} to ${target}`,
    ...(refs.length === 0 ? {} : { task: namesForAudit(refs) }),
    ...(isFiltered ? { filter: JSON.stringify(filter) } : {}),
    ...(isWhole ? {} : { count: refs.length }),
  }
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

/** A daemon's control socket serves 64 clients. */
const FINISHED_AT_ONCE = 32

interface Order {
  readonly selection: Selection
  readonly options: ChangeOptions
  readonly action: Action
  readonly report: ChangeReport
  readonly progress: Progress
  /** Called before the first change. */
  begin(): void
}

async function changeIn(spool: string, taskPaths: readonly TaskPath[], order: Order): Promise<void> {
  const { selection, options, action, report, progress } = order
  const at = options.dryRun === true ? undefined : await openSpool(spool)
  const view = new SpoolView(toByteString(spool), readLocks(), Date.now())
  let hasBegun = false
  const unfinished: Array<() => Promise<void>> = []
  for (const taskPath of taskPaths)
    for await (const ref of candidates(taskPath, view, order)) {
      progress.step()
      if (!selection.mayHave(ref)) continue
      const task = view.view(ref)
      const fault = (text: string) => report.fault(`${pathOf(taskPath.shown, ref)} ${text}`)
      if (task === undefined) {
        if (taskPath.ref !== undefined) fault('does not exist')
      } else if (matches(task, taskPath, order)) {
        if (at !== undefined && !hasBegun) order.begin()
        hasBegun = true
        const result = perform(at, task, action)
        if (at !== undefined && needsMore(result) && action.finish !== undefined)
          unfinished.push(async () => {
            const say = (text: string) => report.say(`${pathOf(taskPath.shown, ref)} ${text}`)
            const finished = await action.finish?.(at, task, result, say)
            report.add(taskPath, ref, finished ?? result)
          })
        else report.add(taskPath, ref, result)
      } else if (task.file.isUnread === true)
        fault(`was left alone, because it cannot be read: ${task.file.detail}`)
    }
  const finishing = Array.from({ length: FINISHED_AT_ONCE }, async () => {
    for (let next = unfinished.shift(); next !== undefined; next = unfinished.shift()) await next()
  })
  await Promise.all(finishing)
}

function needsMore(result: Result): result is Extract<Changed, { kind: 'running' | 'gone' }> {
  return result.kind === 'running' || result.kind === 'gone'
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

function perform(at: OpenSpool | undefined, { ref, state }: TaskView, action: Action): Result {
  if (state === 'dead' && !action.isForDead)
    return { kind: 'refused', detail: 'it is a dead letter: requeue it first' }
  if (at === undefined)
    return state === 'running' && action.finish === undefined ? { kind: 'running' } : { kind: 'would' }
  try {
    return change(at, ref, file => action.act(at, file))
  } catch (error) {
    return { kind: 'refused', detail: messageOf(error) }
  }
}
