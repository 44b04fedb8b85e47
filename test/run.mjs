// Builds the tests and runs them: all of them, or those whose path contains one of the arguments. `--short` leaves out
// what depends least on the version of Node: faults, other programs and other languages.
import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
rmSync(join(root, 'build/test'), { recursive: true, force: true })
execFileSync(
  process.execPath,
  [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'test'), '--incremental', 'false'],
  { stdio: 'inherit' },
)

const wanted = process.argv.slice(2).filter(argument => argument !== '--short')
const NOT_SHORT = /^(?:docs|examples|faults|interop|security)\/|like-uwsgi/
const isShort = process.argv.includes('--short')
const files = readdirSync(join(root, 'build/test'), { recursive: true })
  .filter(
    file => file.endsWith('.test.js') && (wanted.length === 0 || wanted.some(part => file.includes(part))),
  )
  .filter(file => !isShort || !NOT_SHORT.test(file))
  .sort()
  .map(file => join(root, 'build/test', file))

/** A file that hangs is ended and fails; what it said until then is shown. */
const timeout = (process.env.SPOOLD_TEST_LONG === undefined ? 5 : 30) * 60_000
/** Most tests wait more than they work. */
const CONCURRENCY = Math.max(3, availableParallelism())
/** With SPOOLD_TEST_AGAIN=1 a file that failed beside others runs once more, alone. More than so many are no accident. */
const MAX_AGAIN = 8

const isFile = name => name?.endsWith('.test.js')

/** Runs test files and shows them. @returns what passed, per file */
async function runFiles(paths, concurrency) {
  const counts = new Map(paths.map(path => [path, { passed: 0, failed: 0, skipped: 0 }]))
  const countsOf = file => counts.get(file) ?? counts.get(paths[0])
  const stream = run({ files: paths, concurrency, timeout })
  stream.on('test:pass', ({ name, skip, details, file }) => {
    if (details?.type === 'suite' || isFile(name)) return
    countsOf(file)[skip === undefined ? 'passed' : 'skipped']++
  })
  stream.on('test:fail', ({ name, details, file }) => {
    if (details?.type === 'suite' && details.error?.failureType === 'subtestsFailed') return
    countsOf(isFile(name) ? name : file).failed++
  })
  await new Promise((resolve, reject) => {
    stream.compose(new spec()).on('error', reject).on('end', resolve).pipe(process.stdout, { end: false })
  })
  return counts
}

const results = await runFiles(files, CONCURRENCY)
const suspects = files.filter(file => results.get(file)?.failed > 0)
const mayRunAgain = process.env.SPOOLD_TEST_AGAIN === '1' && suspects.length <= MAX_AGAIN
if (mayRunAgain && suspects.length > 0) {
  console.log(`again, alone: ${suspects.map(file => relative(join(root, 'build/test'), file)).join(', ')}`)
  for (const [file, counts] of await runFiles(suspects, 1)) results.set(file, counts)
}

const sum = key => [...results.values()].reduce((total, counts) => total + counts[key], 0)
const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')]
if (failed > 0 || passed === 0) process.exitCode = 1 // no test is no success
process.on('exit', () => console.log(`${skipped} skipped\n${passed} passed, ${failed} failed`))
