import { bars, shortDuration } from '../render.js'
import type { Screen } from '../screen.js'
import type { Column } from '../table.js'
import type { Simulation } from './simulate.js'

const whole = (value: number) => String(Math.round(value))
const workersOf = ({ seconds }: Simulation) => seconds.map(({ workers }) => workers)
const least = (values: readonly number[]) => values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
const most = (values: readonly number[]) => values.reduce((a, b) => Math.max(a, b), 0)

/** @param goalMs a longer p95 is marked */
export function summaryColumns(goalMs: number): ReadonlyArray<Column<Simulation>> {
  return [
    { title: 'ALGORITHM', cell: ({ algorithm }) => algorithm },
    { title: 'WORKERS', cell: run => `${least(workersOf(run))}-${most(workersOf(run))}`, isRight: true },
    { title: 'PROCESS-S', cell: ({ processSeconds }) => whole(processSeconds), isRight: true },
    { title: 'WAIT P50', cell: ({ p50Ms }) => `${whole(p50Ms)} ms`, isRight: true },
    {
      title: 'P95',
      cell: ({ p95Ms }) => `${whole(p95Ms)} ms`,
      isRight: true,
      style: ({ p95Ms }) => (p95Ms > goalMs ? 'red' : undefined),
    },
    { title: 'MAX', cell: ({ maxMs }) => `${whole(maxMs)} ms`, isRight: true },
    { title: 'TURNS', cell: ({ reversals }) => whole(reversals), isRight: true },
    { title: 'LEFT', cell: ({ left }) => (left === 0 ? '' : whole(left)), isRight: true },
  ]
}

/** Yields a title, and then a line per algorithm and second. */
export function* csvOf(simulations: readonly Simulation[]): Generator<string> {
  yield 'algorithm,second,workers,backlog,busyness,wait_ms'
  for (const { algorithm, seconds } of simulations)
    for (const [at, { workers, backlog, busyness, waitMs }] of seconds.entries())
      yield `${algorithm},${at + 1},${workers},${backlog},${busyness},${Math.round(waitMs)}`
}

const USUAL_COLUMNS = 100
const MIN_COLUMNS = 20

/**
 * Returns a chart: one line per simulation, whose height is the number of workers, in as many columns as there is room for. Below
 * these, two lines of the first simulation: how many tasks waited, and how long.
 */
export function chartOf(simulations: readonly Simulation[], maximum: number, { columns }: Screen): string[] {
  const labels = Math.max(...simulations.map(({ algorithm }) => algorithm.length), 'longest wait'.length) + 2
  const longest = Math.max(...simulations.map(({ seconds }) => seconds.length))
  const width = Math.min(longest, Math.max(MIN_COLUMNS, (columns ?? USUAL_COLUMNS) - labels - 12))
  const line = (label: string, values: readonly number[], top: number, unit: string) =>
    `${label.padEnd(labels)}${bars(spread(values, longest, width), top, ' ▁▂▃▄▅▆▇█')} ${unit}`
  const lines = simulations.map(({ algorithm, seconds }) =>
    line(
      algorithm,
      seconds.map(({ workers }) => workers),
      maximum,
      `of ${maximum}`,
    ),
  )
  const [first] = simulations
  if (first === undefined) return []
  const backlogs = first.seconds.map(({ backlog }) => backlog)
  const waits = first.seconds.map(({ waitMs }) => waitMs)
  const mostWaiting = most(backlogs)
  const longestWait = most(waits)
  return [
    ...lines,
    `of ${first.algorithm}:`,
    line('backlog', backlogs, mostWaiting, `of ${mostWaiting}`),
    line('longest wait', waits, longestWait, `of ${Math.round(longestWait)} ms`),
    `${' '.repeat(labels)}0 ${shortDuration(longest * 1000).padStart(width - 2)}`,
  ]
}

/** Spreads values over columns. Each column has the highest of its values, so that no peak is lost. */
function spread(values: readonly number[], length: number, width: number): number[] {
  const columns = new Array<number>(width).fill(0)
  for (const [at, value] of values.entries()) {
    const column = Math.min(width - 1, Math.floor((at * width) / length))
    columns[column] = Math.max(columns[column] ?? 0, value)
  }
  return columns
}
