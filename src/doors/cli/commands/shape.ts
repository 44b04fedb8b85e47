import { selectionOf } from '../../../admin/operate/selection.js'
import { SpooldError } from '../../../base/errors.js'
import { cutPrintable } from '../../../base/printable.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { arrivedMsOf, TASK_STATES, type TaskView } from '../../../engines/spool/admin/task-view.js'
import type { CommandContext } from '../context.js'
import { hideOf, hiding } from '../hiding.js'
import { inEachSpool } from '../in-each-spool.js'
import { type IniOptions, spoolsOf } from '../places.js'
import { terminalName } from '../render.js'
import { type Column, Table } from '../table.js'
import { lastValueOf } from '../task-rows.js'
import { list } from './ls.js'

interface ShapeOptions extends IniOptions {
  readonly by?: string
  readonly json?: boolean
}

const MINUTE = 60_000
/** The upper bound of each bucket in minutes, as in Postfix's qshape. Older tasks are in one more bucket. */
const BOUNDS = [5, 10, 20, 40, 80, 160, 320, 640, 1280]
/** The key with the name of the function that uwsgidecorators calls. */
const FUNCTION = 'ud_spool_func'
/** The most values with a row each. Further ones share a row, because values are a stranger's input. */
const MOST_ROWS = 1000
const LONGEST_VALUE = 30
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
      const shape = new Shape(by, Date.now())
      const store = await openTaskStore(spool)
      const printer = hiding(await hideOf(store, directory, output), shape)
      const isWhole = await list(directory, store, { ...ALIVE, isJson }, printer, output)
      if (isJson) output.json({ spooler: directory, by, boundsMinutes: BOUNDS, rows: shape.rows })
      else {
        const table = new Table(COLUMNS, PLAIN, line => output.painted(line))
        for (const row of shape.rows) table.add(row)
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
  { title: 'MINUTES', cell: ({ name }) => name },
  right('T', ({ total }) => String(total)),
  ...[...BOUNDS.map(String), `${BOUNDS.at(-1)}+`].map((title, i) =>
    right(title, ({ counts }) => String(counts[i] ?? 0)),
  ),
]
/** No limit of columns, because the table fits 80 columns as it is. */
const PLAIN = { columns: undefined, hasColor: false }

/** The numbers of tasks by value and age, in bounded memory. */
class Shape {
  readonly #key: string
  readonly #nowMs: number
  readonly #total = newCounts()
  readonly #byValue = new Map<string, number[]>()

  constructor(key: string, nowMs: number) {
    this.#key = key
    this.#nowMs = nowMs
  }

  add(task: TaskView): true {
    const minutes = (this.#nowMs - (arrivedMsOf(task, this.#nowMs) ?? this.#nowMs)) / MINUTE
    const place = BOUNDS.findIndex(bound => minutes < bound)
    const at = place < 0 ? BOUNDS.length : place
    for (const counts of [this.#total, this.#countsOf(this.#valueOf(task))])
      counts[at] = (counts[at] ?? 0) + 1
    return true
  }

  /** Returns the total first, then the values, those with the most tasks first. */
  get rows(): Row[] {
    const rows = [...this.#byValue].map(([name, counts]) => rowOf(name, counts))
    return [rowOf('TOTAL', this.#total), ...rows.sort((a, b) => b.total - a.total)]
  }

  #valueOf({ file: { vars } }: TaskView): string {
    const value = lastValueOf(vars, this.#key)
    if (value === undefined) return NONE
    return cutPrintable(terminalName(Buffer.from(value, 'latin1')), LONGEST_VALUE)
  }

  #countsOf(value: string): number[] {
    const isNew = !this.#byValue.has(value)
    const name = isNew && this.#byValue.size >= MOST_ROWS ? OTHERS : value
    const counts = this.#byValue.get(name) ?? newCounts()
    this.#byValue.set(name, counts)
    return counts
  }
}

function newCounts(): number[] {
  return [...BOUNDS, 0].map(() => 0)
}

function rowOf(name: string, counts: readonly number[]): Row {
  return { name, counts, total: counts.reduce((sum, count) => sum + count, 0) }
}
