import { errnoOf, messageOf, SpooldError } from '../../../base/errors.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { arrivedMsOf, seenTask, TASK_STATES, type TaskView } from '../../../engines/spool/admin/task-view.js'
import { ownersSight } from '../../../formats/protocol/sight.js'
import { toPairs } from '../../../formats/protocol/vars.js'
import type { CommandContext } from '../context.js'
import { hideOf } from '../hiding.js'
import { inEachSpool } from '../in-each-spool.js'
import type { Output } from '../output.js'
import { type IniOptions, type Place, spoolsOf, unlisted } from '../places.js'
import { terminalName } from '../render.js'
import { type Column, Table } from '../table.js'

interface ShapeOptions extends IniOptions {
  readonly by?: string
  readonly json?: boolean
}

const MINUTE = 60_000
/** Each bucket's upper bound in minutes, as in Postfix's qshape; what is older is in one more. */
const BOUNDS = [5, 10, 20, 40, 80, 160, 320, 640, 1280]
/** The function that uwsgidecorators run. */
const FUNCTION = 'ud_spool_func'
/** More values than this are one row: they are a stranger's input. */
const MOST_ROWS = 1000
const LONGEST_VALUE = 30
const NONE = '(none)'
const OTHERS = '(others)'

/** `spoold shape DIR…`: how many tasks of which kind arrived how long ago. @returns 1 if a part could not be listed */
export async function shape(
  named: readonly string[],
  options: ShapeOptions,
  context: CommandContext,
): Promise<number> {
  context.output.purpose = 'look'
  return inEachSpool(spoolsOf(named, options, context), context, place =>
    shapeOf(place, options, context.output),
  )
}

async function shapeOf(
  { shown: directory, spool }: Place,
  { by = FUNCTION, json }: ShapeOptions,
  output: Output,
): Promise<number> {
  if (by === '') throw new SpooldError('USAGE', '--by: expected a key of the tasks, got nothing')
  const nowMs = Date.now()
  const shape = new Shape(Buffer.from(by), nowMs)
  let exitCode = 0
  try {
    const store = await openTaskStore(spool)
    const failed = (prefix: string, error: unknown) => {
      exitCode = 1
      output.complain(
        `${directory}/${terminalName(Buffer.from(prefix, 'latin1'))} cannot be listed: ${messageOf(error)}`,
      )
    }
    const all = { states: ALIVE, mayHave: () => true, has: () => true, failed }
    const order = { sort: 'none', isReversed: false, limit: Number.POSITIVE_INFINITY } as const
    const sight = ownersSight(await hideOf(store, directory, output))
    await store.list({ ...all, ...order }, task => {
      shape.add(seenTask(task, sight))
      return true
    })
  } catch (error) {
    throw errnoOf(error) === undefined || error instanceof SpooldError ? error : unlisted(directory, error)
  }
  if (json) output.json({ spooler: directory, by, boundsMinutes: BOUNDS, rows: shape.rows })
  else {
    const table = new Table(COLUMNS, PLAIN, line => output.painted(line))
    for (const row of shape.rows) table.add(row)
    table.end()
  }
  return exitCode
}

const ALIVE = TASK_STATES.filter(state => state !== 'dead')

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
/** It fits 80 columns as it is. */
const PLAIN = { columns: undefined, hasColor: false }

/** Counts by value and age; memory grows with neither. */
class Shape {
  readonly #key: Buffer
  readonly #nowMs: number
  readonly #total = newCounts()
  readonly #byValue = new Map<string, number[]>()

  constructor(key: Buffer, nowMs: number) {
    this.#key = key
    this.#nowMs = nowMs
  }

  add(task: TaskView): void {
    const minutes = (this.#nowMs - (arrivedMsOf(task, this.#nowMs) ?? this.#nowMs)) / MINUTE
    const place = BOUNDS.findIndex(bound => minutes < bound)
    const at = place < 0 ? BOUNDS.length : place
    for (const counts of [this.#total, this.#countsOf(this.#valueOf(task))])
      counts[at] = (counts[at] ?? 0) + 1
  }

  /** The total first, then the values with most tasks. */
  get rows(): Row[] {
    const rows = [...this.#byValue].map(([name, counts]) => rowOf(name, counts))
    return [rowOf('TOTAL', this.#total), ...rows.sort((a, b) => b.total - a.total)]
  }

  #valueOf({ file: { vars } }: TaskView): string {
    const pair = vars === undefined ? undefined : toPairs(vars).findLast(([key]) => key.equals(this.#key))
    if (pair === undefined) return NONE
    const text = terminalName(pair[1])
    return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE - 1)}…` : text
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
