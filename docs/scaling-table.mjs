// `node docs/scaling-table.mjs` writes the table of docs/scaling.md, which is what the simulator says; a test compares them.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ALGORITHMS, loadAlgorithm } from '../build/src/supervisor/scaling/algorithms.js'
import { arrivalsOf, PATTERNS } from '../build/src/supervisor/scaling/patterns.js'
import { SCALING_DEFAULTS } from '../build/src/supervisor/scaling/scaling-options.js'
import { simulate } from '../build/src/supervisor/scaling/simulate.js'

const PAGE = fileURLToPath(new URL('scaling.md', import.meta.url))
const BEGIN = '<!-- The table is written by `node docs/scaling-table.mjs`. -->\n\n'
const END = '\n<!-- Here it ends. -->'
const SECOND = 1_000_000
const SCALING = { ...SCALING_DEFAULTS, minimum: 1, maximum: 16, processors: 16 }

async function row(name, pattern) {
  const algorithm = await loadAlgorithm(name === 'fixed' ? 'manual' : name)
  const initial = { fixed: SCALING.maximum, cheap: 0 }[name] ?? SCALING.minimum
  const run = simulate(algorithm, arrivalsOf(pattern, SCALING.maximum, 1), {
    scaling: { ...SCALING, minimum: name === 'cheap' ? 0 : SCALING.minimum },
    initial,
    tickMicros: SECOND,
    startMicros: 0.4 * SECOND,
    eagerMicros: 0.05 * SECOND,
    untilMicros: pattern.seconds * SECOND,
    giveUpMicros: 3600 * SECOND,
  })
  return `${Math.round(run.processSeconds)} / ${Math.round(run.p95Ms)} ms`
}

export async function scalingTable() {
  const names = ALGORITHMS.map(({ name }) => name).filter(name => name !== 'manual')
  const lines = [
    `| | ${Object.keys(PATTERNS).join(' | ')} |`,
    `|---|${'---|'.repeat(Object.keys(PATTERNS).length)}`,
  ]
  for (const name of [...names, 'fixed']) {
    const cells = await Promise.all(Object.values(PATTERNS).map(pattern => row(name, pattern)))
    lines.push(`| \`${name}\` | ${cells.join(' | ')} |`)
  }
  return `${lines.join('\n')}\n`
}

/** @returns [before, the table, behind] */
export function parts() {
  const page = readFileSync(PAGE, 'utf8')
  const from = page.indexOf(BEGIN) + BEGIN.length
  const to = page.indexOf(END)
  return [page.slice(0, from), page.slice(from, to), page.slice(to)]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [before, , behind] = parts()
  writeFileSync(PAGE, `${before}${await scalingTable()}${behind}`)
}
