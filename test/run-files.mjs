// Runs test files side by side, and sees to it that nothing of a file outlives it.
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { setTimeout as sleep } from 'node:timers/promises'
import { endStartedBy, markWhatStarts, startedBy } from './started.mjs'

/** What was signalled at a file's end, or notices it by itself, may take so long on a busy machine. */
const LINGER_MS = 20_000
const LINGER_STEP_MS = 50
const SIGNALS = ['SIGINT', 'SIGTERM']

const isFile = name => name?.endsWith('.test.js')

/**
 * Runs test files and shows them. A file that takes longer than `limitMs` is ended with all that it has started, and fails;
 * so does one that leaves a process behind, which is ended too. SIGINT and SIGTERM end all of them.
 *
 * @returns per file: the numbers of tests that passed, failed and were skipped, and how long they took, in ms
 */
export async function runFiles(paths, { concurrency, limitMs, lingerMs = LINGER_MS }) {
  const output = process.stdout
  const counts = new Map(paths.map(path => [path, { passed: 0, failed: 0, skipped: 0, ms: 0 }]))
  const countsOf = file => counts.get(file) ?? counts.get(paths[0])
  const limits = new Map()
  const looks = []
  markWhatStarts()
  // Not `timeout`: since Node 24 that is one per test, and a file that hangs between its tests is never ended.
  const stream = run({ files: paths, concurrency })
  const addTime = ({ name, nesting, details, file }) => {
    if (nesting === 0 && !isFile(name)) countsOf(file).ms += details.duration_ms
  }
  stream.on('test:dequeue', ({ name: file, nesting }) => {
    if (nesting > 0 || !counts.has(file)) return
    limits.set(
      file,
      setTimeout(() => endAtLimit(file), limitMs),
    )
  })
  stream.on('test:complete', ({ name: file, nesting }) => {
    if (nesting > 0 || !counts.has(file)) return
    clearTimeout(limits.get(file))
    looks.push(lookBehind(file))
  })
  stream.on('test:pass', event => {
    addTime(event)
    const { name, skip, details, file } = event
    if (details?.type === 'suite' || isFile(name)) return
    countsOf(file)[skip === undefined ? 'passed' : 'skipped']++
  })
  stream.on('test:fail', event => {
    addTime(event)
    const { name, details, file } = event
    if (details?.type === 'suite' && details.error?.failureType === 'subtestsFailed') return
    countsOf(isFile(name) ? name : file).failed++
  })

  function endAtLimit(file) {
    say(`${file} did not end within ${limitMs / 1000} s: ended`, endStartedBy(file))
  }

  async function lookBehind(file) {
    for (let waited = 0; waited < lingerMs && startedBy(file).length > 0; waited += LINGER_STEP_MS)
      await sleep(LINGER_STEP_MS)
    const left = endStartedBy(file)
    if (left.length === 0) return
    countsOf(file).failed++
    say(`${file} left processes behind: ended`, left)
  }

  function say(text, processes) {
    output.write(`${[text, ...processes].join('\n  ')}\n`)
  }

  const endAll = () => {
    say('ended with this run', endStartedBy())
    process.exit(1)
  }
  for (const signal of SIGNALS) process.once(signal, endAll)
  await new Promise((resolve, reject) => {
    stream.compose(new spec()).on('error', reject).on('end', resolve).pipe(output, { end: false })
  })
  await Promise.all(looks)
  for (const signal of SIGNALS) process.off(signal, endAll)
  return counts
}
