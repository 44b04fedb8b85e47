// Builds the tests and runs the short ones (lanes.mjs), or with `--all` all of them, with `--rest` all but the short ones,
// with other arguments those whose path contains one of them.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isShort, slowFirst } from './lanes.mjs'
import { runFiles } from './run-files.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const built = join(root, 'build/test')
rmSync(built, { recursive: true, force: true })
execFileSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'test'), '--incremental', 'false'],
  { stdio: 'inherit' },
)

const lane = process.argv.slice(2).filter(argument => argument.startsWith('--'))
const parts = process.argv.slice(2).filter(argument => !argument.startsWith('--'))
const isWanted = file => {
  if (parts.length > 0) return parts.some(part => file.includes(part))
  return lane.includes('--all') || isShort(file) !== lane.includes('--rest')
}
const found = readdirSync(built, { recursive: true }).filter(file => file.endsWith('.test.js'))
const files = slowFirst(found.sort().filter(isWanted)).map(file => join(built, file))

/** What is there to test with is found out once per run: test/helpers/requires.ts. */
process.env.SPOOLD_TEST_PROBES = join(built, 'probes')
mkdirSync(process.env.SPOOLD_TEST_PROBES, { recursive: true })

/** A file that hangs is ended, with all that it has started, and fails. */
const LIMIT_MS = (process.env.SPOOLD_TEST_LONG === undefined ? 10 : 45) * 60_000
/** Most tests wait more than they work. */
const CONCURRENCY = Math.max(4, availableParallelism())
/** With SPOOLD_TEST_AGAIN=1 a file that failed beside others runs once more, alone. More than so many are no accident. */
const MAX_AGAIN = 8
const SLOWEST_SHOWN = 10

const runOnce = (paths, concurrency) => runFiles(paths, { concurrency, limitMs: LIMIT_MS })
const results = await runOnce(files, CONCURRENCY)

const slowest = [...results].sort(([, a], [, b]) => b.ms - a.ms).slice(0, SLOWEST_SHOWN)
console.log('slowest:')
for (const [file, { ms }] of slowest)
  console.log(`${(ms / 1000).toFixed(1).padStart(7)} s  ${relative(built, file)}`)

const suspects = files.filter(file => results.get(file)?.failed > 0)
const mayRunAgain = process.env.SPOOLD_TEST_AGAIN === '1' && suspects.length <= MAX_AGAIN
if (mayRunAgain && suspects.length > 0) {
  console.log(`again, alone: ${suspects.map(file => relative(built, file)).join(', ')}`)
  for (const [file, counts] of await runOnce(suspects, 1)) results.set(file, counts)
}

const sum = key => [...results.values()].reduce((total, counts) => total + counts[key], 0)
const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')]
if (failed > 0 || passed === 0) process.exitCode = 1 // no test is no success
process.on('exit', () => console.log(`${skipped} skipped\n${passed} passed, ${failed} failed`))
