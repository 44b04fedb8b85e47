// `node docs/scaling-table.mjs` writes the tables and curves of docs/scaling.md: what the simulator says, and what
// docs/scaling-live.json has of live runs; a test compares them.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { arrivalsOf, PATTERNS } from '../build/src/doors/cli/scaling/load.js'
import { simulate } from '../build/src/doors/cli/scaling/simulate.js'
import { scalingOptions } from '../build/src/doors/daemon/pool-plan.js'
import { defaultsOf } from '../build/src/formats/config/option-values.js'
import { ALGORITHMS, loadAlgorithm } from '../build/src/runtime/supervisor/scaling/algorithms.js'
import { liveParts } from './scaling-live.mjs'

const PAGE = fileURLToPath(new URL('scaling.md', import.meta.url))
/** `npm run bench -- scaling` writes it. */
const LIVE = fileURLToPath(new URL('scaling-live.json', import.meta.url))
const SECOND = 1_000_000
const DEFAULTS = defaultsOf(({ perSpool }) => perSpool === true)
const SCALING = { ...scalingOptions(DEFAULTS, 16), minimum: 1, processors: 16 }

async function row(name, pattern) {
  const algorithm = await loadAlgorithm(name === 'fixed' ? 'manual' : name)
  const initial = { fixed: SCALING.maximum, cheap: 0 }[name] ?? SCALING.minimum
  const run = simulate(algorithm, arrivalsOf(pattern, SCALING.maximum, 1), {
    scaling: { ...SCALING, minimum: name === 'cheap' ? 0 : SCALING.minimum },
    initial,
    tickMicros: SECOND,
    startMicros: 0.4 * SECOND,
    untilMicros: pattern.seconds * SECOND,
    giveUpMicros: 3600 * SECOND,
  })
  return `${Math.round(run.processSeconds)} / ${Math.round(run.p95Ms)} ms`
}

async function scalingTable() {
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

/** The page with everything in it written anew that is between comments like `<!-- spike -->` and `<!-- /spike -->`. */
export async function writtenPage() {
  const live = liveParts(JSON.parse(readFileSync(LIVE, 'utf8')))
  const parts = { simulated: await scalingTable(), ...live }
  return Object.entries(parts).reduce((page, [name, text]) => {
    const [from, to] = [`<!-- ${name} -->\n`, `<!-- /${name} -->`]
    const [begin, end] = [page.indexOf(from) + from.length, page.indexOf(to)]
    if (begin < from.length || end < begin) throw new Error(`docs/scaling.md: expected ${from}…${to}`)
    return `${page.slice(0, begin)}\n${text.trimEnd()}\n\n${page.slice(end)}`
  }, readPage())
}

export function readPage() {
  return readFileSync(PAGE, 'utf8')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(PAGE, await writtenPage())
