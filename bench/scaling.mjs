// npm run bench -- scaling [patterns | steady | spike] [--long] [--algorithms=spare,latency --patterns=ramp --seconds=60
// --beside=5 --pairs=1]: runs daemons that adapt, and a uWSGI beside those whose algorithm it has, under the patterns of
// docs/scaling.md, and prints what docs/scaling.md would say of them, in a quarter of an hour. With `--long`, which takes an
// hour and a half, docs/scaling-live.json keeps it, and docs/scaling-table.mjs puts it into the page. Tasks sleep, so that the
// machine has time for several daemons; on a busy one, `chrt -r 10` before it keeps others out of the figures.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { liveParts } from '../docs/scaling-live.mjs'
import { isInstalled, median, ROOT } from './harness.mjs'
import { arrivalsIn, PATTERNS } from './scaling/arrivals.mjs'
import { runSimulated } from './scaling/simulated.mjs'
import { runSpike, runSpikeAndReturn } from './scaling/spike.mjs'
import { runSpoold } from './scaling/spoold.mjs'
import { measureStart } from './scaling/start-time.mjs'
import { runUwsgi } from './scaling/uwsgi.mjs'

const FILE = join(ROOT, 'docs/scaling-live.json')
const ALGORITHMS = ['spare', 'spare2', 'backlog', 'busyness', 'cheap', 'latency', 'fixed']
/** The algorithms of uWSGI 2.0.21. */
const UWSGI_HAS = ['spare', 'backlog', 'busyness']
const SEED = 1
const LONG = { seconds: 300, pairs: 5, steadySeconds: 660 }
const SHORT = { seconds: 60, pairs: 1, steadySeconds: 120 }

export async function scaling(args) {
  const option = (name, fallback) =>
    args.find(arg => arg.startsWith(`--${name}=`))?.slice(name.length + 3) ?? fallback
  const wanted = args.filter(arg => !arg.startsWith('--'))
  const isWanted = name => wanted.length === 0 || wanted.includes(name)
  const isKept = args.includes('--long')
  const form = isKept ? LONG : SHORT
  const algorithms = option('algorithms', ALGORITHMS.join(',')).split(',')
  const seconds = Number(option('seconds', form.seconds))
  const pairs = Number(option('pairs', form.pairs))
  const found =
    isKept && existsSync(FILE) ? JSON.parse(readFileSync(FILE, 'utf8')) : { runs: {}, spike: {}, steady: {} }
  const keep = (part, key, value) => {
    found[part][key] = value
    if (isKept) writeFileSync(FILE, `${JSON.stringify(found, undefined, 2)}\n`)
    console.error(`${part} ${key}: ${JSON.stringify(value).replace(/"workers":"\w+",/g, '')}`)
  }
  if (isWanted('patterns')) {
    found.seconds = seconds
    found.processors = availableParallelism()
    found.startMs = await measureStart()
    console.error(`a worker starts in ${found.startMs} ms`)
    const patterns = option('patterns', Object.keys(PATTERNS).join(',')).split(',')
    for (const algorithm of algorithms)
      await inGroups(patterns, Number(option('beside', 5)), async pattern =>
        keep('runs', `${algorithm} ${pattern}`, await sideBySide(algorithm, pattern, seconds, found.startMs)),
      )
  }
  if (isWanted('steady'))
    keep(
      'steady',
      'latency',
      packed(await runSpoold('latency', steady(form.steadySeconds), form.steadySeconds)),
    )
  if (isWanted('spike'))
    for (const algorithm of algorithms.filter(name => name !== 'fixed'))
      keep('spike', algorithm, await spike(algorithm, algorithm === 'latency' ? pairs : 1))
  for (const text of Object.values(liveParts(found))) console.log(text)
}

const steady = seconds => arrivalsIn('steady', seconds, SEED)

async function sideBySide(algorithm, pattern, seconds, startMs) {
  const arrivals = arrivalsIn(pattern, seconds, SEED)
  const hasPeer = UWSGI_HAS.includes(algorithm) && isInstalled('uwsgi')
  const [simulated, live, uwsgi] = await Promise.all([
    runSimulated(algorithm, arrivals, seconds, startMs),
    runSpoold(algorithm, arrivals, seconds),
    hasPeer ? runUwsgi(algorithm, arrivals, seconds) : undefined,
  ])
  return {
    simulated: packed(simulated),
    live: packed(live),
    ...(uwsgi !== undefined && { uwsgi: packed(uwsgi) }),
  }
}

/** Returns the run with its numbers of workers as text, one character per second. */
function packed(run) {
  return { ...run, workers: Array.from(run.workers, count => (count ?? 0).toString(36)).join('') }
}

/** Measures a spike in alternating pairs with a daemon that always has as many processes as there may be. */
async function spike(algorithm, pairs) {
  const [own, fixed] = [[], []]
  for (let pair = 0; pair < pairs; pair++) {
    const runs = [
      async () => own.push(await runSpike(algorithm)),
      async () => fixed.push(await runSpike('fixed')),
    ]
    for (const run of pair % 2 === 0 ? runs : runs.reverse()) await run()
  }
  const ratios = own.map((seconds, pair) => seconds / fixed[pair])
  const result = {
    seconds: own,
    fixed,
    ratio: median(ratios),
    low: Math.min(...ratios),
    high: Math.max(...ratios),
  }
  return algorithm === 'latency' ? { ...result, after: await runSpikeAndReturn(algorithm) } : result
}

async function inGroups(items, size, run) {
  for (let at = 0; at < items.length; at += size) await Promise.all(items.slice(at, at + size).map(run))
}
