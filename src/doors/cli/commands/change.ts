import { type Selection, selectionOf } from '../../../admin/operate/selection.js'
import { errnoOf, messageOf, SpooldError } from '../../../base/errors.js'
import type { Ref } from '../../../base/task/ref.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { namesForAudit } from '../../../engines/spool/admin/audit.js'
import { ownStateOf, type TaskView } from '../../../engines/spool/admin/task-view.js'
import type { TaskStore } from '../../../engines/task-store.js'
import { asOwners } from '../acting-owner.js'
import { audit } from '../audit.js'
import { type Action, type ChangeOptions, ChangeReport, pathOf, type Result } from '../change-report.js'
import type { CommandContext } from '../context.js'
import { pathsOf } from '../ini-spools.js'
import { Progress } from '../progress.js'
import { parseTaskPath, type TaskPath } from '../task-paths.js'
import { Turns } from '../turns.js'

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
      const begin = (store: TaskStore) => audit(store, aboutOf(members, options, action), output)
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
  begin(store: TaskStore): Promise<void>
}

async function changeIn(spool: string, taskPaths: readonly TaskPath[], order: Order): Promise<void> {
  const { options, action, report, progress } = order
  const store = await openTaskStore(spool)
  const running: Array<() => Promise<void>> = []
  const turns = new Turns(action.atOnce ?? 1)
  let hasBegun = options.dryRun === true
  for (const taskPath of taskPaths)
    for await (const task of candidates(taskPath, store, order)) {
      progress.step()
      const { ref } = task
      const fault = (text: string) => report.fault(`${pathOf(taskPath.shown, ref)} ${text}`)
      if (!matches(task, taskPath, order)) {
        if (task.file.isUnread === true)
          fault(`was left alone, because it cannot be read: ${task.file.detail}`)
        continue
      }
      if (!hasBegun) await order.begin(store)
      hasBegun = true
      const perform = async () => {
        const say = (text: string) => report.say(`${pathOf(taskPath.shown, ref)} ${text}`)
        report.add(taskPath, ref, await resultOf(store, task, order, say))
      }
      if (task.state === 'running' && action.endsRuns === true && options.dryRun !== true)
        running.push(perform)
      else await turns.take(perform)
    }
  await turns.end()
  const ending = Array.from({ length: FINISHED_AT_ONCE }, async () => {
    for (let next = running.shift(); next !== undefined; next = running.shift()) await next()
  })
  await Promise.all(ending)
}

async function* candidates(
  taskPath: TaskPath,
  store: TaskStore,
  { selection, action, progress, report }: Order,
): AsyncGenerator<TaskView> {
  const { ref, shown } = taskPath
  if (ref !== undefined) {
    const task = selection.mayHave(ref) ? await store.view(ref) : undefined
    if (task !== undefined) yield task
    else if (selection.mayHave(ref)) report.fault(`${pathOf(shown, ref)} does not exist`)
    return
  }
  const wanted = {
    isInOrder: action.atOnce !== undefined,
    states: selection.states ?? action.states,
    mayHave: (each: Ref) => selection.mayHave(each),
  }
  try {
    yield* store.views(wanted, count => progress.expect(count))
  } catch (error) {
    if (errnoOf(error) === undefined || error instanceof SpooldError) throw error
    throw new SpooldError('SPOOL_UNUSABLE', `${shown} cannot be listed: ${messageOf(error)}`)
  }
}

/** Selected by its path, by a state that was asked for, or by one of the command's default states. */
function matches(task: TaskView, { ref }: TaskPath, { selection, action }: Order): boolean {
  if (!selection.has(task)) return false
  return ref !== undefined || selection.states !== undefined || action.states.includes(ownStateOf(task.state))
}

async function resultOf(
  store: TaskStore,
  task: TaskView,
  { action, options }: Order,
  say: (text: string) => void,
): Promise<Result> {
  const { state } = task
  if (state === 'dead' && !action.isForDead)
    return { kind: 'refused', detail: 'it is a dead letter: requeue it first' }
  if (options.dryRun === true)
    return state === 'running' && action.endsRuns !== true ? { kind: 'running' } : { kind: 'would' }
  return await action.act(store, task, say)
}
