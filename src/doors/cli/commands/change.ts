import { type Selection, selectionOf } from '../../../admin/operate/selection.js'
import { doEach } from '../../../base/each.js'
import { errnoOf, messageOf, SpooldError } from '../../../base/errors.js'
import type { Ref } from '../../../base/task/ref.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { namesForAudit } from '../../../engines/spool/admin/audit.js'
import { ownStateOf, type TaskView } from '../../../engines/spool/admin/task-view.js'
import type { TaskStore } from '../../../engines/task-store.js'
import { asOwners } from '../acting-owner.js'
import { audit } from '../audit.js'
import { type Action, type ChangeOptions, ChangeReport, type Result } from '../change-report.js'
import type { CommandContext } from '../context.js'
import { commandExitCode } from '../exit-code.js'
import { refusalOf } from '../in-each-spool.js'
import { isSpool, type NamedTask, type Place, spoolsOf, tasksOf, unlisted } from '../places.js'
import { pathOf } from '../render.js'

/**
 * Changes the named tasks, or the tasks of whole spools that the filters select. Reports each, changed or not.
 *
 * @returns 0, or 1 if something could not be done
 */
export async function changeTasks(
  words: readonly string[],
  options: ChangeOptions,
  action: Action,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess, interruption } = context
  const isDry = options.dryRun === true
  output.purpose = isDry ? 'look' : 'change'
  const selection = selectionOf(options)
  if (selection.states?.includes('parked') === true)
    throw new SpooldError(
      'USAGE',
      '--state parked: only ls can tell; for this command these tasks are due: use --state due with --task NAME or --key KEY=VALUE',
    )
  if (words.length === 0 && options.ini === undefined)
    throw new SpooldError('USAGE', 'name a file or a spool directory, or --ini FILE')
  const report = new ChangeReport(action, options, output)
  const spools = words.filter(word => isSpool(word, options))
  const isWhole = words.length === 0 || spools.length > 0
  const wholes = isWhole ? await spoolsOf(spools, options, context) : []
  const [whole] = wholes
  if (whole !== undefined && selection.isAll && options.all !== true)
    throw new SpooldError('USAGE', `which tasks in ${whole.shown}? Use filters, or --all`)
  const others = words.filter(word => !isSpool(word, options))
  const named = await namedTasks(others, options, context, report, wholes)
  const groups = bySpool(wholes, named)
  report.expect(named.length)
  const places = [...groups.values()].map(({ place }) => place)
  return asOwners(ownProcess, places, async mine => {
    await action.prepare?.(isDry)
    if (!isDry) interruption.heed(() => report.tally())
    report.expectSpools(mine.length)
    await doEach(
      mine.flatMap(({ spool }) => groups.get(spool) ?? []),
      async group => {
        try {
          const begin = (store: TaskStore) => audit(store, aboutOf(group, options, action), output)
          await changeIn(group, { selection, options, action, report, context, begin })
        } catch (error) {
          const { text, exitCode } = await refusalOf(error, group.place)
          report.fault(text, exitCode)
        }
      },
      { signal: interruption.signal },
    )
    return interruption.signal.aborted ? 0 : report.end()
  })
}

/** @throws SpooldError USAGE if a word means several tasks */
async function namedTasks(
  words: readonly string[],
  options: ChangeOptions,
  context: CommandContext,
  report: ChangeReport,
  besides: readonly Place[],
): Promise<NamedTask[]> {
  const fault = (error: SpooldError) => report.fault(error.message, commandExitCode(error))
  const tasks = await tasksOf(words, options, context, fault, besides)
  const byWord = new Map<string, NamedTask[]>()
  for (const task of tasks)
    if (task.how !== 'gone') byWord.set(task.word, [...(byWord.get(task.word) ?? []), task])
    else if (context.ownProcess.part === undefined) report.fault(`${task.word} does not exist`)
  for (const found of byWord.values())
    if (new Set(found.map(({ place, task }) => `${place.spool}/${task.ref}`)).size > 1) {
      const paths = found.map(({ place, task }) => pathOf(place.shown, task.ref))
      throw new SpooldError(
        'USAGE',
        `several tasks have this name: ${paths.join(', ')}; give the path of one`,
      )
    }
  return [...byWord.values()].flat()
}

/** The tasks to change in one spool. */
interface Group {
  readonly place: Place
  /** True if the tasks of the spool that the filters select are changed, besides the named ones. */
  isWhole: boolean
  readonly named: Map<Ref, NamedTask>
}

function bySpool(wholes: readonly Place[], named: readonly NamedTask[]): Map<string, Group> {
  const groups = new Map<string, Group>()
  const groupOf = (place: Place) => {
    const group = groups.get(place.spool) ?? { place, isWhole: false, named: new Map<Ref, NamedTask>() }
    groups.set(place.spool, group)
    return group
  }
  for (const place of wholes) groupOf(place).isWhole = true
  for (const each of named) groupOf(each.place).named.set(each.task.ref, each)
  return groups
}

function aboutOf({ isWhole, named }: Group, options: ChangeOptions, { command, target }: Action) {
  const { all: _all, dryRun: _dryRun, quiet: _quiet, json: _json, ini: _ini, ...filter } = options
  const isFiltered = isWhole || Object.keys(filter).length > 0
  return {
    action: target === undefined ? command : `${command} to ${target}`,
    ...(named.size === 0 ? {} : { task: namesForAudit([...named.keys()]) }),
    ...(isFiltered ? { filter: JSON.stringify(filter) } : {}),
    ...(isWhole ? {} : { count: named.size }),
  }
}

/** The number of runs that are ended at the same time: half of the 64 clients that a daemon's control socket serves. */
const ENDED_AT_ONCE = 32

interface Order {
  readonly selection: Selection
  readonly options: ChangeOptions
  readonly action: Action
  readonly report: ChangeReport
  readonly context: Pick<CommandContext, 'output' | 'interruption'>
  /** Called before the first change. */
  begin(store: TaskStore): Promise<void>
}

interface Candidate {
  readonly task: TaskView
  /** The name of the spool in the output. */
  readonly shown: string
  readonly isNamed: boolean
}

async function changeIn(group: Group, order: Order): Promise<void> {
  const { options, action, report, context } = order
  report.reachedSpool()
  if (group.place.fault !== undefined) throw group.place.fault
  const store = await openTaskStore(group.place.spool)
  const endsRuns = action.endsRuns === true && options.dryRun !== true
  let begun: Promise<void> | undefined
  const changeOne = async ({ task, shown, isNamed }: Candidate) => {
    report.looked()
    const path = pathOf(shown, task.ref)
    if (!matches(task, isNamed, order)) {
      if (task.file.isUnread === true)
        report.fault(`${path} was left alone, because it cannot be read: ${task.file.detail}`)
      return
    }
    if (options.dryRun !== true) {
      begun ??= order.begin(store)
      await begun
    }
    report.begun()
    report.add(shown, task.ref, await resultOf(store, task, order, text => report.say(`${path} ${text}`)))
    await context.output.room()
  }
  const tasks = candidates(group, store, order)
  await doEach(endsRuns ? runningLast(tasks) : tasks, changeOne, {
    atOnce: endsRuns ? ENDED_AT_ONCE : (action.atOnce ?? 1),
    signal: context.interruption.signal,
  })
}

async function* candidates(
  { place: { shown }, isWhole, named }: Group,
  store: TaskStore,
  { selection, action, report }: Order,
): AsyncGenerator<Candidate> {
  for (const [ref, { place }] of named) {
    if (!selection.mayHave(ref)) continue
    const task = await store.view(ref)
    if (task !== undefined) yield { task, shown: place.shown, isNamed: true }
    else report.fault(`${pathOf(place.shown, ref)} does not exist`)
  }
  if (!isWhole) return
  const wanted = {
    isInOrder: action.atOnce !== undefined,
    states: selection.states ?? action.states,
    mayHave: (ref: Ref) => selection.mayHave(ref) && !named.has(ref),
    failed: (prefix: string, error: unknown) =>
      report.fault(`${pathOf(shown, prefix)} cannot be listed: ${messageOf(error)}`),
  }
  try {
    for await (const task of store.views(wanted, count => report.expect(count)))
      yield { task, shown, isNamed: false }
  } catch (error) {
    throw errnoOf(error) === undefined || error instanceof SpooldError ? error : unlisted(shown, error)
  }
}

/** Yields the running tasks last: they take long to end, and the others need not wait for that. */
async function* runningLast(tasks: AsyncGenerator<Candidate>): AsyncGenerator<Candidate> {
  const running: Candidate[] = []
  for await (const each of tasks)
    if (each.task.state === 'running') running.push(each)
    else yield each
  yield* running
}

/** True if the filters fit, and the task is named, or its state was asked for or is one of the command's default states. */
function matches(task: TaskView, isNamed: boolean, { selection, action }: Order): boolean {
  if (!selection.has(task)) return false
  return isNamed || selection.states !== undefined || action.states.includes(ownStateOf(task.state))
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
