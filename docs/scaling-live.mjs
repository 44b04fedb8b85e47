// What docs/scaling-live.json says of live runs (`npm run bench -- scaling` writes it), as parts of docs/scaling.md.

const BLOCKS = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
const MAXIMUM = 16
const COLUMNS = 75
const CURVES = ['spare', 'backlog', 'busyness', 'latency']
const SIDES = [
  ['simulated', 'simulated'],
  ['live', 'spoold'],
  ['uwsgi', 'uWSGI'],
]
const SETTLE_SECONDS = 60

const countsOf = ({ workers }) => [...workers].map(count => Number.parseInt(count, 36))

/** @returns Markdown, by the name of its place in the page */
export function liveParts({ runs, spike, steady }) {
  const patterns = [...new Set(Object.keys(runs).map(key => key.split(' ')[1]))]
  const algorithms = [...new Set(Object.keys(runs).map(key => key.split(' ')[0]))]
  const runOf = (algorithm, pattern) => runs[`${algorithm} ${pattern}`]
  return {
    figures: table(['', '', ...patterns], figureRows(algorithms, patterns, runOf)),
    agreement: table(['', ...patterns], agreementRows(algorithms, patterns, runOf)),
    curves: curves(patterns, runOf),
    spike: table(['', 'done after', 'against 16 all the time'], spikeRows(spike)),
    steady: steadyLine(steady.latency) + afterLine(spike.latency?.after),
  }
}

function figureRows(algorithms, patterns, runOf) {
  return algorithms.flatMap(algorithm =>
    SIDES.filter(([side]) => patterns.some(pattern => runOf(algorithm, pattern)?.[side])).map(
      ([side, label], at) => [
        at === 0 ? `\`${algorithm}\`` : '',
        label,
        ...patterns.map(pattern => figuresOf(runOf(algorithm, pattern)?.[side])),
      ],
    ),
  )
}

function figuresOf(run) {
  return run === undefined ? '' : `${run.processSeconds} / ${run.p95Ms} ms / ${run.reversals}`
}

function agreementRows(algorithms, patterns, runOf) {
  const row = (algorithm, side, label) => [
    `\`${algorithm}\`, and ${label}`,
    ...patterns.map(pattern => {
      const run = runOf(algorithm, pattern)
      return run?.[side] === undefined ? '' : `${percentWithinOne(run.live, run[side])} %`
    }),
  ]
  return algorithms
    .filter(algorithm => algorithm !== 'fixed')
    .flatMap(algorithm => {
      const hasPeer = patterns.some(pattern => runOf(algorithm, pattern)?.uwsgi)
      const rows = [row(algorithm, 'simulated', 'simulated')]
      return hasPeer ? [...rows, row(algorithm, 'uwsgi', 'uWSGI')] : rows
    })
}

/** In how many of the seconds there were as many workers, give or take one. */
function percentWithinOne(one, other) {
  const counts = countsOf(other)
  const within = countsOf(one).filter((count, at) => Math.abs(count - counts[at]) <= 1).length
  return ((100 * within) / counts.length).toFixed(1)
}

function curves(patterns, runOf) {
  const lines = patterns
    .filter(pattern => pattern !== 'idle')
    .flatMap(pattern => [
      pattern,
      ...CURVES.flatMap(algorithm =>
        SIDES.filter(([side]) => runOf(algorithm, pattern)?.[side]).map(([side, label], at) => {
          const name = at === 0 ? algorithm : ''
          return `  ${name.padEnd(9)}${label.padEnd(10)}${blocksOf(countsOf(runOf(algorithm, pattern)[side]))}`
        }),
      ),
    ])
  return `\`\`\`\n${lines.join('\n')}\n\`\`\`\n`
}

/** As high as there were workers in the middle of each column. */
function blocksOf(counts) {
  const width = counts.length / COLUMNS
  return Array.from({ length: COLUMNS }, (_, column) => {
    const count = counts[Math.floor((column + 0.5) * width)] ?? 0
    return BLOCKS[Math.ceil((count * (BLOCKS.length - 1)) / MAXIMUM)]
  }).join('')
}

function spikeRows(spike) {
  return Object.entries(spike).map(([algorithm, { seconds, ratio, low, high }]) => {
    const times = seconds.map(each => each.toFixed(1))
    const spread = seconds.length > 1 ? ` (${low.toFixed(2)}–${high.toFixed(2)})` : ''
    return [`\`${algorithm}\``, `${times.join(', ')} s`, `${ratio.toFixed(2)} ×${spread}`]
  })
}

function steadyLine(run) {
  if (run === undefined) return ''
  const settled = countsOf(run).slice(SETTLE_SECONDS)
  const changes = settled
    .map((count, at) => count - (settled[at - 1] ?? count))
    .filter(change => change !== 0)
  const turns = changes.filter(
    (change, at) => at > 0 && Math.sign(change) !== Math.sign(changes[at - 1]),
  ).length
  const [least, most] = [Math.min(...settled), Math.max(...settled)]
  const workers = least === most ? `${least}` : `${least} to ${most}`
  return `- In ${spanOf(settled.length)} of 48 tasks of 100 ms per second, \`latency\` had ${workers} workers, and changed direction ${turns} times. p95 of the time that tasks waited: ${run.p95Ms} ms.\n`
}

const spanOf = seconds => (seconds === 600 ? 'ten minutes' : `${seconds} s`)

function afterLine(run) {
  if (run === undefined) return ''
  const {
    most,
    backSeconds,
    megabytes: [before, peak, after],
  } = run
  return `- After the thousand tasks, \`latency\` went from ${most} workers to one in ${Math.round(backSeconds)} s. All processes together had ${before} MB resident before, ${peak} MB at the end of the tasks, and ${after} MB with one worker again.\n`
}

function table(head, rows) {
  const line = cells => `| ${cells.join(' | ')} |`
  return `${[line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')}\n`
}
