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

/** A line per second and algorithm, below a title. */
export function* csvOf(simulations: readonly Simulation[]): Generator<string> {
  yield 'algorithm,second,workers,backlog,busyness,wait_ms'
  for (const { algorithm, seconds } of simulations)
    for (const [at, { workers, backlog, busyness, waitMs }] of seconds.entries())
      yield `${algorithm},${at + 1},${workers},${backlog},${busyness},${Math.round(waitMs)}`
}
