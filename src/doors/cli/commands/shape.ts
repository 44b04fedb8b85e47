import { selectionOf } from '../../../admin/operate/selection.js'
import { SpooldError } from '../../../base/errors.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { TASK_STATES } from '../../../engines/spool/admin/task-view.js'
import type { CommandContext } from '../context.js'
import { hideOf, hiding } from '../hiding.js'
import { inEachSpool } from '../in-each-spool.js'
import { type IniOptions, spoolsOf } from '../places.js'
import { terminalName } from '../render.js'
import { type Column, Table } from '../table.js'
import { AGE_BOUNDS, type Group, KEY_PREFIX, TaskGroups } from '../task-groups.js'
import { fit } from '../text-width.js'
import { list } from './ls.js'

interface ShapeOptions extends IniOptions {
  readonly by?: string
  readonly json?: boolean
}

/** The key with the name of the function that uwsgidecorators calls. */
const FUNCTION = 'ud_spool_func'
/** The most values with a row each. Further ones share a row, because values are a stranger's input. */
const MOST_ROWS = 1000
/** The width of the column of values. */
const LONGEST_NAME = 30
const NONE = '(none)'
const OTHERS = '(others)'

/** `spoold shape DIR…`: counts tasks by the value of a key and by their age. @returns 1 if a part could not be listed */
export async function shape(
  named: readonly string[],
  options: ShapeOptions,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  output.purpose = 'look'
  const { by = FUNCTION, json: isJson = false } = options
  return inEachSpool(
    await spoolsOf(named, options, context),
    context,
    async ({ shown: directory, spool }) => {
      if (by === '') throw new SpooldError('USAGE', '--by: expected a key of the tasks, got nothing')
      const groups = new TaskGroups([KEY_PREFIX + by], Date.now(), MOST_ROWS)
      const store = await openTaskStore(spool)
      const printer = hiding(await hideOf(store, directory, output), groups)
      const isWhole = await list(directory, store, { ...ALIVE, isJson }, printer, output)
      const rows = rowsOf(groups)
      if (isJson) output.json({ spooler: directory, by, boundsMinutes: AGE_BOUNDS, rows })
      else {
        const table = new Table(COLUMNS, PLAIN, line => output.painted(line))
        for (const row of rows) table.add(row)
        table.end()
      }
      return isWhole ? 0 : 1
    },
  )
}

const ALIVE = {
  selection: selectionOf({ state: TASK_STATES.filter(state => state !== 'dead').join() }),
  ...({ sort: 'none', isReversed: false, limit: Number.POSITIVE_INFINITY } as const),
}

interface Row {
  readonly name: string
  readonly total: number
  readonly counts: readonly number[]
}

const right = (title: string, cell: (row: Row) => string): Column<Row> => ({ title, cell, isRight: true })
const COLUMNS: ReadonlyArray<Column<Row>> = [
  { title: 'MINUTES', cell: ({ name }) => fit(name, LONGEST_NAME) },
  right('T', ({ total }) => String(total)),
  ...[...AGE_BOUNDS.map(String), `${AGE_BOUNDS.at(-1)}+`].map((title, i) =>
    right(title, ({ counts }) => String(counts[i] ?? 0)),
  ),
]
/** No limit of columns, because the table fits 80 columns as it is. */
const PLAIN = { columns: undefined, hasColor: false }

/** Returns the total first, then the values, those with the most tasks first. */
function rowsOf(groups: TaskGroups): Row[] {
  const rows = groups
    .sorted('count', false)
    .map(({ values, ages, count }): Row => ({ name: nameOf(values), counts: ages, total: count }))
  const sum = (of: (row: Row) => number) => rows.reduce((total, row) => total + of(row), 0)
  const counts = [...AGE_BOUNDS, 0].map((_, age) => sum(row => row.counts[age] ?? 0))
  const total = { name: 'TOTAL', counts, total: sum(row => row.total) }
  return [total, ...rows.sort((a, b) => b.total - a.total)]
}

function nameOf(values: Group['values']): string {
  if (values.length === 0) return OTHERS
  const [value] = values
  return value === undefined ? NONE : terminalName(Buffer.from(value, 'latin1'))
}
