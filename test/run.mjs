// Builds the tests and runs the short ones (lanes.mjs), or with `--all` all of them, with `--rest` all but the short ones, with
// `--later` those whose subject a later Node may change; with other arguments those whose path contains one of them.
// `--weigh` keeps what each file took in weights.json; `--built` takes the tests as the last run has built them.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { differsOnLaterNodes, isShort } from './lanes.mjs'
import { failuresOf, runAgain, runFiles, ticks } from './run-files.mjs'
import { BUILT, nameOf, readWeights, writeWeights } from './weights.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
if (process.getuid() === 0 && !isOpenToAll(root)) process.exit(await runInCopy())

const lane = process.argv.slice(2).filter(argument => argument.startsWith('--'))
if (!lane.includes('--built') || !existsSync(BUILT)) build()

const parts = process.argv.slice(2).filter(argument => !argument.startsWith('--'))
const isWanted = file => {
  if (parts.length > 0) return parts.some(part => file.includes(part))
  if (lane.includes('--later')) return differsOnLaterNodes(file)
  return lane.includes('--all') || isShort(file) !== lane.includes('--rest')
}
const found = readdirSync(BUILT, { recursive: true })
  .filter(file => file.endsWith('.test.js'))
  .sort()
const files = found.filter(isWanted).map(file => join(BUILT, file))

/** Where test/helpers/requires.ts keeps what there is to test with, so that it is found out once per run. */
process.env.SPOOLD_TEST_PROBES = join(BUILT, 'probes')
mkdirSync(process.env.SPOOLD_TEST_PROBES, { recursive: true })
/** With this set, each of some thousand starts of Node reads all certificates first. No test leaves the machine. */
delete process.env.NODE_EXTRA_CA_CERTS

/** The seed with which a run repeats what chance decides, except for the timing. */
process.env.SPOOLD_TEST_SEED ??= String(Math.floor(Math.random() * 2 ** 31))
console.log(`SPOOLD_TEST_SEED=${process.env.SPOOLD_TEST_SEED}`)

/** A file that takes longer is ended, with all that it has started, and fails. */
const LIMIT_MS = (process.env.SPOOLD_TEST_LONG === undefined ? 20 : 45) * 60_000
/**
 * Files that are weighed have room; others have more than there is, because a file waits more beside others: with 1.15 times, the
 * processors stood idle for a fifth of a run. What is too much is seen before a file begins (run-files.mjs).
 */
const PROCESSORS = availableParallelism() * (lane.includes('--weigh') ? 0.8 : 1.4)
const SLOWEST_SHOWN = 10

const weights = readWeights()
const weightOf = path => weights(nameOf(path))
const before = ticks()
const results = await runFiles(files, { processors: PROCESSORS, weightOf, limitMs: LIMIT_MS })

const now = ticks()
const idle = ((now.idle - before.idle) / (now.all - before.all)) * 100

const seconds = value => `${value.toFixed(1).padStart(7)} s`
const slowest = [...results].sort(([, a], [, b]) => b.seconds - a.seconds).slice(0, SLOWEST_SHOWN)
console.log('slowest, and the processor time of each:')
for (const [path, { seconds: took, cpu = 0 }] of slowest)
  console.log(`${seconds(took)}${seconds(cpu)}  ${nameOf(path)}`)

if (lane.includes('--weigh')) {
  const measured = [...results].filter(([, { cpu, failed }]) => cpu !== undefined && failed === 0)
  const existing = new Set(found.map(file => nameOf(join(BUILT, file))))
  writeWeights(
    measured.map(([path, { cpu, seconds: took }]) => [nameOf(path), [cpu, took]]),
    existing,
  )
}

if (process.env.SPOOLD_TEST_AGAIN === '1') await runAgain(results, { nameOf, weightOf, limitMs: LIMIT_MS })

/** What ran, for test/claims.mjs: a line per test. */
const { SPOOLD_TEST_RESULTS: log } = process.env
if (log !== undefined) {
  const lines = [...results].flatMap(([path, { tests }]) =>
    tests.map(test => ({ file: nameOf(path), ...test })),
  )
  appendFileSync(log, lines.map(line => `${JSON.stringify(line)}\n`).join(''))
}

const sum = key => [...results.values()].reduce((total, result) => total + result[key], 0)
const [passed, failed, skipped] = [sum('passed'), sum('failed'), sum('skipped')]
console.log(
  `${seconds(sum('seconds'))}${[...results.values()]
    .reduce((total, { cpu = 0 }) => total + cpu, 0)
    .toFixed(0)
    .padStart(7)} s of processor time; the processors were idle for ${idle.toFixed(0)} % of the time`,
)
if (failed > 0 || passed === 0) process.exitCode = 1 // a run without a test is no success
process.on('exit', () => {
  for (const [path, result] of results)
    for (const line of failuresOf(nameOf(path), result)) console.log(`failed: ${line}`)
  console.log(`${skipped} skipped\n${passed} passed, ${failed} failed`)
})

function build() {
  rmSync(BUILT, { recursive: true, force: true })
  execFileSync(
    process.execPath,
    [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'test'), '--incremental', 'false'],
    { stdio: 'inherit' },
  )
}

/** True if any user can read the checkout: some tests of root drop their rights before they load it. */
function isOpenToAll(path) {
  const { mode } = statSync(path)
  if ((statSync(join(path, 'package.json')).mode & 0o004) === 0 || (mode & 0o005) !== 0o005) return false
  for (let at = dirname(path); at !== dirname(at); at = dirname(at))
    if ((statSync(at).mode & 0o001) === 0) return false
  return true
}

/** Runs the tests of a copy that any user can read. @returns the exit code */
async function runInCopy() {
  const copy = mkdtempSync(join(tmpdir(), 'spoold-checkout-'))
  console.log(`others may not read ${root}: the tests run in ${copy}`)
  execFileSync('sh', ['-c', 'tar -c --exclude=./.git . | tar -x --no-same-owner -C "$0"', copy], {
    cwd: root,
  })
  execFileSync('chmod', ['-R', 'go+rX', copy])
  const run = spawn(process.execPath, [join(copy, 'test/run.mjs'), ...process.argv.slice(2)], {
    cwd: copy,
    stdio: 'inherit',
  })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => run.kill(signal))
  const [code] = await once(run, 'exit')
  rmSync(copy, { recursive: true, force: true })
  return code ?? 1
}
