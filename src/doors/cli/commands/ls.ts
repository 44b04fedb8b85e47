import { wrongArg } from '../../../admin/operate/args.js'
import { type Selection, type SelectionOptions, selectionOf } from '../../../admin/operate/selection.js'
import { errnoOf, messageOf, SpooldError } from '../../../base/errors.js'
import { describePauses, lastingPauses, NO_PAUSES } from '../../../base/task/pause.js'
import type { Ref } from '../../../base/task/ref.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { SORTS, type Sort } from '../../../engines/spool/admin/listing.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import type { TaskStore } from '../../../engines/task-store.js'
import { ownersSight, type Sight, seenPauses } from '../../../formats/protocol/sight.js'
import { keepHeapSmall } from '../../../system/small-heap.js'
import type { CommandContext } from '../context.js'
import { hideOf, hiding, type Printer } from '../hiding.js'
import { inEachSpool } from '../in-each-spool.js'
import type { Output } from '../output.js'
import { type IniOptions, spoolsOf, unlisted } from '../places.js'
import { terminalName } from '../render.js'
import { Table } from '../table.js'
import { GROUP_SORTS, type GroupSort, TaskGroups } from '../task-groups.js'
import { type ShownValues, taskAsJson, taskColumns } from '../task-rows.js'

interface LsOptions extends SelectionOptions, IniOptions {
  readonly json?: boolean
  /** The same as --sort name. */
  readonly byName?: boolean
  readonly sort?: string
  readonly reverse?: boolean
  readonly limit?: string
  readonly show?: readonly string[]
  readonly vars?: boolean
  readonly by?: string
}

/** The listing that the options ask for. */
interface Order {
  readonly selection: Selection
  readonly sort: Sort
  readonly isReversed: boolean
  /** The most tasks, or groups, of each spool; Infinity for all. */
  readonly limit: number
  /** Set if tasks are counted instead of listed. */
  readonly by?: { readonly words: readonly string[]; readonly sort: GroupSort }
  readonly shown: ShownValues
  readonly isJson: boolean
}

/**
 * `spoold ls DIR…`: prints the tasks of spools in the order in which they will run, then the dead letters; with `--by`, how
 * many there are of each kind.
 *
 * @returns 1 if a part of a spool could not be listed, or if a file could not be read for a filter
 */
export async function ls(
  named: readonly string[],
  options: LsOptions,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  output.purpose = 'look'
  keepHeapSmall()
  const order = orderOf(options)
  const places = await spoolsOf(named, options, context)
  const nowMs = Date.now()
  let isFirst = true
  return inEachSpool(places, context, async ({ shown: directory, spool }) => {
    const store = await openTaskStore(spool, { asksDaemons: true })
    const hide = await hideOf(store, directory, output)
    await tellPauses(directory, store, ownersSight(hide), nowMs, output)
    if (!order.isJson && places.length > 1) output.lines([...(isFirst ? [] : ['']), `${directory}:`])
    isFirst = false
    const printer = printerFor(directory, order, nowMs, context)
    const isWhole = await list(directory, store, order, hiding(hide, printer), output)
    printer.end()
    return isWhole ? 0 : 1
  })
}

/** Says on standard error what is paused. The table cannot: a pause also concerns tasks that are not there yet. */
async function tellPauses(
  directory: string,
  store: TaskStore,
  sight: Sight,
  nowMs: number,
  output: Output,
): Promise<void> {
  const { pauses, ...fault } = (await store.pauses()) ?? NO_PAUSES
  const now = { pauses: lastingPauses(pauses, nowMs), ...fault }
  if (now.pauses.length > 0 || now.fault !== undefined)
    output.complain(`${directory}: paused: ${describePauses(seenPauses(now, sight))}`)
}

/** @throws SpooldError USAGE */
function orderOf(options: LsOptions): Order {
  const { json = false, byName = false, reverse = false, limit, show = [], vars = false, by } = options
  if (byName && options.sort !== undefined)
    throw new SpooldError('USAGE', '--by-name is the same as --sort name: give one of them')
  const words = by?.split(',').filter(word => word !== '')
  if (words?.length === 0) throw wrongArg('--by', 'state, priority, reason, error or a key', by)
  const keys = show.flatMap(each => each.split(',')).filter(key => key !== '')
  if (show.length > 0 && keys.length === 0)
    throw wrongArg('--show', 'keys of packets: to,kind', show.join(','))
  return {
    selection: selectionOf(options),
    sort: words === undefined ? oneOf(SORTS, options.sort ?? (byName ? 'name' : 'run')) : 'none',
    isReversed: reverse,
    limit: limit === undefined ? Number.POSITIVE_INFINITY : countOf('--limit', limit),
    ...(words === undefined ? {} : { by: { words, sort: oneOf(GROUP_SORTS, options.sort ?? 'count') } }),
    shown: { keys, hasAll: vars },
    isJson: json,
  }
}

function oneOf<Word extends string>(words: readonly Word[], text: string): Word {
  const known = words.find(word => word === text)
  if (known === undefined) throw wrongArg('--sort', `one of ${words.join(', ')}`, text)
  return known
}

function countOf(flag: string, text: string): number {
  if (!/^[0-9]{1,15}$/.test(text) || Number(text) === 0) throw wrongArg(flag, 'a whole number from 1', text)
  return Number(text)
}

function printerFor(
  directory: string,
  order: Order,
  nowMs: number,
  { output, screen }: CommandContext,
): Printer {
  const { by, shown, isJson, isReversed } = order
  const print = (line: string) => output.painted(line)
  if (by !== undefined) {
    const groups = new TaskGroups(by.words, nowMs)
    return {
      add: task => groups.add(task),
      end() {
        const table = new Table(groups.columns(), screen(), print)
        for (const group of groups.sorted(by.sort, isReversed).slice(0, order.limit))
          if (isJson) output.json(groups.asJson(directory, group))
          else table.add(group)
        if (!isJson) table.end()
      },
    }
  }
  const table = new Table(taskColumns(shown, nowMs), screen(), print)
  let count = 0
  return {
    add(task) {
      if (isJson) output.json(taskAsJson(directory, task, shown, nowMs))
      else table.add(task)
      return ++count < order.limit
    },
    end() {
      if (!isJson) table.end()
    },
  }
}

/** Lists the tasks of a spool. @returns false if a part of the spool could not be listed or read */
export async function list(
  directory: string,
  store: TaskStore,
  {
    selection,
    sort,
    isReversed,
    limit,
    isJson,
  }: Pick<Order, 'selection' | 'sort' | 'isReversed' | 'limit' | 'isJson'>,
  printer: Pick<Printer, 'add'>,
  output: Output,
): Promise<boolean> {
  const complaints = new Set<string>()
  const complain = (ref: Ref, fault: string) => {
    const text = `${directory}/${terminalName(Buffer.from(ref, 'latin1'))} cannot be ${fault}`
    if (!complaints.has(text)) output.complain(text) // a long listing looks at everything several times
    complaints.add(text)
  }
  const failed = (prefix: Ref, error: unknown) => complain(prefix, `listed: ${messageOf(error)}`)
  const has = (task: TaskView) => {
    if (selection.has(task)) return true
    if (selection.needsPackets && task.file.isUnread === true) complain(task.ref, `read: ${task.file.detail}`)
    return false
  }
  const { states, mayHave } = selection
  try {
    const plan = { states, sort, isReversed, limit, mayHave, has, failed }
    const source = await store.list(plan, task => printer.add(task))
    if (source !== undefined && !isJson) output.complain(`${directory}: ${source}`)
  } catch (error) {
    throw errnoOf(error) === undefined || error instanceof SpooldError ? error : unlisted(directory, error)
  }
  return complaints.size === 0
}
