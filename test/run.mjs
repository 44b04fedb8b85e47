// Builds the tests and runs them: all of them, or those whose path contains one of the arguments. `--short` leaves out
// what depends least on the version of Node: faults, other programs and other languages.
import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
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

let passed = 0
let failed = 0
let skipped = 0
const isFile = name => name?.endsWith('.test.js')
/** A file that hangs is ended and fails; what it said until then is shown. */
const timeout = (process.env.SPOOLD_TEST_LONG === undefined ? 3 : 30) * 60_000
/** Most tests wait more than they work. */
const concurrency = Math.max(3, availableParallelism())
const stream = run({ files, concurrency, timeout })
stream.on('test:pass', ({ name, skip, details }) => {
  if (details?.type === 'suite' || isFile(name)) return
  if (skip === undefined) passed++
  else skipped++
})
stream.on('test:fail', ({ details }) => {
  if (details?.type === 'suite' && details.error?.failureType === 'subtestsFailed') return
  failed++
  process.exitCode = 1
})
stream.compose(new spec()).pipe(process.stdout)
stream.on('end', () => {
  if (passed + failed === 0) process.exitCode = 1 // no test is no success
  process.on('exit', () => console.log(`${skipped} skipped\n${passed} passed, ${failed} failed`))
})
