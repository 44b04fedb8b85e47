import { shortDuration } from '../render.js'
import type { Screen } from '../screen.js'
import type { Simulation } from './simulate.js'

const BLOCKS = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
const USUAL_COLUMNS = 100
const MIN_COLUMNS = 20

/**
 * A line for each simulation: as high as there were workers, in as many columns as there is room for. Below the first one, how
 * many tasks waited, and how long.
 */
export function chartOf(simulations: readonly Simulation[], maximum: number, { columns }: Screen): string[] {
  const labels = Math.max(...simulations.map(({ algorithm }) => algorithm.length), 'longest wait'.length) + 2
  const longest = Math.max(...simulations.map(({ seconds }) => seconds.length))
  const width = Math.min(longest, Math.max(MIN_COLUMNS, (columns ?? USUAL_COLUMNS) - labels - 12))
  const line = (label: string, values: readonly number[], most: number, unit: string) =>
    `${label.padEnd(labels)}${blocksOf(spread(values, longest, width), most)} ${unit}`
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
  const mostWaiting = highest(backlogs)
  const longestWait = highest(waits)
  return [
    ...lines,
    `of ${first.algorithm}:`,
    line('backlog', backlogs, mostWaiting, `of ${mostWaiting}`),
    line('longest wait', waits, longestWait, `of ${Math.round(longestWait)} ms`),
    `${' '.repeat(labels)}0${shortDuration(longest * 1000).padStart(width - 1)}`,
  ]
}

/** The highest of what falls into each column, so that no peak is lost. */
function spread(values: readonly number[], length: number, width: number): number[] {
  const columns = new Array<number>(width).fill(0)
  for (const [at, value] of values.entries()) {
    const column = Math.min(width - 1, Math.floor((at * width) / length))
    columns[column] = Math.max(columns[column] ?? 0, value)
  }
  return columns
}

function blocksOf(values: readonly number[], most: number): string {
  const top = BLOCKS.length - 1
  return values.map(value => BLOCKS[most === 0 ? 0 : Math.ceil((value * top) / most)] ?? '█').join('')
}

function highest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), 0)
}
