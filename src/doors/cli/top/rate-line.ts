import type { Sample } from './state.js'

const BLOCKS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
const LABEL = '  done/s      '
/** The scale, at the end of the line. */
const SCALE_COLUMNS = 24

/** How many tasks per second were done between looks, the last on the right: one line; none before the second look. */
export function rateLine(history: readonly Sample[], columns: number): string[] {
  const rates = history.slice(1).map((sample, i) => rateOf(history[i], sample))
  const shown = rates.slice(-Math.max(1, columns - LABEL.length - SCALE_COLUMNS))
  if (shown.length === 0) return []
  const most = shown.reduce((highest, rate) => Math.max(highest, rate), 0)
  const top = BLOCKS.length - 1
  const bars = shown.map(rate => BLOCKS[most === 0 ? 0 : Math.ceil((rate * top) / most)] ?? '').join('')
  return [`${LABEL}${bars} at most ${most < 10 ? most.toFixed(1) : Math.round(most).toLocaleString('en')}`]
}

/** 0 where a daemon has begun anew. */
function rateOf(before: Sample | undefined, { atMs, daemon, done }: Sample): number {
  if (before === undefined || before.daemon !== daemon || atMs <= before.atMs) return 0
  return Math.max(0, ((done - before.done) * 1000) / (atMs - before.atMs))
}
