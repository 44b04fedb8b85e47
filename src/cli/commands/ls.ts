import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { findParked } from '../../control/parked-tasks.js'
import { readLocks } from '../../files/lock-table.js'
import { type Selection, type SelectionOptions, selectionOf } from '../../operate/selection.js'
import { Listing, SORTS, type Sort } from '../../spool/admin/listing.js'
import { SpoolView, type TaskView } from '../../spool/admin/task-view.js'
import { maySeePauses, readPauses } from '../../spool/pauses.js'
import { keepHeapSmall } from '../../system/small-heap.js'
import { describePauses, lastingPauses } from '../../task/pause.js'
import type { Ref } from '../../task/ref.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { hiding, type Printer } from '../hiding.js'
import { type IniOptions, spoolsOf } from '../ini-spools.js'
import { nextTasks } from '../next-tasks.js'
import { type Output, ReaderGone } from '../output.js'
import { terminalName } from '../render.js'
import { realPath, unlisted } from '../spool-path.js'
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

/** What the options ask for. */
interface Order {
  readonly selection: Selection
  readonly sort: Sort
  readonly isReversed: boolean
  /** For each spool; Infinity: all. */
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
  const { output, ownProcess } = context
  output.purpose = 'look'
  keepHeapSmall()
  const order = orderOf(options)
  const directories = spoolsOf(named, options)
  return asOwners(ownProcess, directories, async mine => {
    const [locks, nowMs] = [readLocks(), Date.now()]
    let exitCode = 0
    for (const [i, directory] of mine.entries()) {
      const spool = realPath(directory)
      tellPauses(directory, spool, nowMs, output)
      if (!order.isJson && directories.length > 1) output.line(`${i === 0 ? '' : '\n'}${directory}:`)
      const printer = hiding(spool, printerFor(directory, order, nowMs, context))
      const parked = await findParked(spool)
      const view = new SpoolView(spool, locks, nowMs, (ref, vars) => parked.whyOf(ref, vars))
      const listing = { directory, spool, view, nowMs }
      if (!(await list(listing, order, printer, output))) exitCode = 1
      printer.end()
    }
    return exitCode
  })
}

/** Not in the table: what is paused also concerns tasks that are not there yet. */
function tellPauses(directory: string, spool: string, nowMs: number, output: Output): void {
  const { pauses, ...fault } = readPauses(spool)
  const now = { pauses: lastingPauses(pauses, nowMs), ...fault }
  if (now.pauses.length > 0 || (now.fault !== undefined && maySeePauses(spool)))
    output.complain(`${directory}: paused: ${describePauses(now)}`)
}

/** @throws SpooldError USAGE */
function orderOf(options: LsOptions): Order {
  const { json = false, byName = false, reverse = false, limit, show = [], vars = false, by } = options
  if (byName && options.sort !== undefined)
    throw new SpooldError('USAGE', '--by-name is the same as --sort name: give one of them')
  const words = by?.split(',').filter(word => word !== '')
  if (words?.length === 0) throw wrong('--by', 'state, priority, reason, error or a key', by ?? '')
  const keys = show.flatMap(each => each.split(',')).filter(key => key !== '')
  if (show.length > 0 && keys.length === 0) throw wrong('--show', 'keys of packets: to,kind', show.join(','))
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
  if (known === undefined) throw wrong('--sort', `one of ${words.join(', ')}`, text)
  return known
}

function countOf(flag: string, text: string): number {
  if (!/^[0-9]{1,15}$/.test(text) || Number(text) === 0) throw wrong(flag, 'a whole number from 1', text)
  return Number(text)
}

function printerFor(
  directory: string,
  order: Order,
  nowMs: number,
  { output, screen }: CommandContext,
): Printer {
  const { by, shown, isJson, isReversed } = order
  const print = (line: string) => output.line(line)
  if (by !== undefined) {
    const groups = new TaskGroups(by.words, nowMs)
    return {
      add(task) {
        groups.add(task)
        return true
      },
      end() {
        const table = new Table(groups.columns(), screen(), print)
        for (const group of groups.sorted(by.sort, isReversed).slice(0, order.limit))
          if (isJson) print(JSON.stringify(groups.asJson(directory, group)))
          else table.add(group)
        if (!isJson) table.end()
      },
    }
  }
  const table = new Table(taskColumns(shown, nowMs), screen(), print)
  let count = 0
  return {
    add(task) {
      if (isJson) print(JSON.stringify(taskAsJson(directory, task, shown, nowMs)))
      else table.add(task)
      return ++count < order.limit
    },
    end() {
      if (!isJson) table.end()
    },
  }
}

interface Listed {
  /** As the user named it. */
  readonly directory: string
  /** Its real path, a byte string. */
  readonly spool: string
  readonly view: SpoolView
  readonly nowMs: number
}

/** Only the first to start are wanted, which a daemon may know. */
function isFirst({ sort, isReversed, by }: Order): boolean {
  return sort === 'run' && !isReversed && by === undefined
}

/** @returns false if a part of the spool could not be listed or read */
async function list(
  { directory, spool, view, nowMs }: Listed,
  order: Order,
  printer: Printer,
  output: Output,
): Promise<boolean> {
  const { selection, sort, isReversed } = order
  const { states, mayHave, needsPackets } = selection
  const complaints = new Set<string>()
  const complain = (ref: Ref, fault: string) => {
    const text = `${directory}/${terminalName(Buffer.from(ref, 'latin1'))} cannot be ${fault}`
    if (!complaints.has(text)) output.complain(text) // a long listing looks at everything several times
    complaints.add(text)
  }
  const failed = (prefix: Ref, error: unknown) => complain(prefix, `listed: ${messageOf(error)}`)
  const has = (task: TaskView) => {
    if (selection.has(task)) return true
    if (needsPackets && task.file.isUnread === true) complain(task.ref, `read: ${task.file.detail}`)
    return false
  }
  let isWanted = true
  const take = (task: TaskView) => {
    isWanted = printer.add(task)
    return isWanted
  }
  const next = isFirst(order)
    ? await nextTasks(spool, view, order.limit, ref => mayHave(ref), has)
    : undefined
  if (next !== undefined) {
    if (!order.isJson) output.complain(`${directory}: ${next.source}`)
    next.tasks.every(take)
    return complaints.size === 0
  }
  const listing = new Listing(spool, view, { sort, isReversed, mayHave, has, failed }, nowMs)
  try {
    if (states === undefined || states.some(state => state !== 'dead')) await listing.living(take)
  } catch (error) {
    throw errnoOf(error) === undefined ? error : unlisted(directory, error)
  }
  try {
    if (isWanted && (states === undefined || states.includes('dead'))) await listing.dead(take)
  } catch (error) {
    if (error instanceof ReaderGone) throw error
    failed('.spoold/dead', error) // only the spool's user may read it
  }
  return complaints.size === 0
}

function wrong(flag: string, expected: string, got: string): SpooldError {
  return new SpooldError('USAGE', `${flag}: expected ${expected}, got ${JSON.stringify(got)}`)
}
