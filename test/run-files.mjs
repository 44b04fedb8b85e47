// Runs test files side by side, and sees to it that nothing of a file outlives it.
import { text } from 'node:stream/consumers'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { setTimeout as sleep } from 'node:timers/promises'
import { endStartedBy, markWhatStarts, startedBy } from './started.mjs'

/** What was signalled at a file's end, or notices it by itself, may take so long on a busy machine. */
const LINGER_MS = 20_000
const LINGER_STEP_MS = 50
const SIGNALS = ['SIGINT', 'SIGTERM']
/** The line by which the reporter begins to say again what failed. */
const FAILURES = /^.*failing tests:.*\n/gm

/**
 * Runs test files and shows each when it has ended, and at the end what failed. A file that takes longer than `limitMs` is ended
 * with all that it has started, and fails; so does one that leaves a process behind, which is ended too. SIGINT and SIGTERM end
 * all of them.
 *
 * @returns per file: the numbers of tests that passed, failed and were skipped, and how long it took, in ms
 */
export async function runFiles(paths, { concurrency, limitMs, lingerMs = LINGER_MS }) {
  const results = new Map()
  const failures = []
  markWhatStarts()
  const endAll = () => {
    say('ended with this run', endStartedBy())
    process.exit(1)
  }
  for (const signal of SIGNALS) process.once(signal, endAll)
  const left = paths.values()
  const runNext = async () => {
    for (const path of left) {
      const { counts, shown, failed } = await runFile(path, limitMs)
      await lookBehind(path, counts, lingerMs)
      results.set(path, counts)
      process.stdout.write(shown)
      if (failed !== '') failures.push(failed)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, runNext))
  for (const signal of SIGNALS) process.off(signal, endAll)
  if (failures.length > 0) process.stdout.write(`\n✖ failing tests:\n${failures.join('')}`)
  return results
}

/** One stream for each file: an event says where its test was written, which may be a suite that several files share. */
async function runFile(path, limitMs) {
  const counts = { passed: 0, failed: 0, skipped: 0, ms: performance.now() }
  // Not `timeout`: since Node 24 that is one per test, and a file that hangs between its tests is never ended.
  const limit = setTimeout(
    () => say(`${path} did not end within ${limitMs / 1000} s: ended`, endStartedBy(path)),
    limitMs,
  )
  const stream = run({ files: [path], concurrency: 1 })
  stream.on('test:pass', ({ name, skip, details }) => {
    if (details?.type === 'suite' || name === path) return
    counts[skip === undefined ? 'passed' : 'skipped']++
  })
  stream.on('test:fail', ({ details }) => {
    if (details?.type === 'suite' && details.error?.failureType === 'subtestsFailed') return
    counts.failed++
  })
  const all = await text(stream.compose(withoutSums).compose(new spec()))
  clearTimeout(limit)
  counts.ms = performance.now() - counts.ms
  const at = [...all.matchAll(FAILURES)].at(-1)
  if (at === undefined) return { counts, shown: all, failed: '' }
  return { counts, shown: all.slice(0, at.index), failed: all.slice(at.index + at[0].length) }
}

/** Each file would say how many tests it had. */
async function* withoutSums(events) {
  for await (const event of events)
    if (event.type !== 'test:diagnostic' || event.data.nesting > 0) yield event
}

async function lookBehind(path, counts, lingerMs) {
  for (let waited = 0; waited < lingerMs && startedBy(path).length > 0; waited += LINGER_STEP_MS)
    await sleep(LINGER_STEP_MS)
  const left = endStartedBy(path)
  if (left.length === 0) return
  counts.failed++
  say(`${path} left processes behind: ended`, left)
}

function say(line, processes) {
  process.stdout.write(`${[line, ...processes].join('\n  ')}\n`)
}
