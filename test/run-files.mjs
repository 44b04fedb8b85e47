// Runs test files side by side, and sees to it that nothing of a file outlives it.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { setTimeout as sleep } from 'node:timers/promises'
import { endStartedBy, markWhatStarts, startedBy, usageFile } from './started.mjs'

/** How long processes that were signalled at the end of a file, or that notice it by themselves, may take on a busy machine. */
const LINGER_MS = 20_000
const LINGER_STEP_MS = 50
const SIGNALS = ['SIGINT', 'SIGTERM']
/** The line by which the reporter begins to repeat what failed. */
const FAILURES = /^.*failing tests:.*\n/gm
/** The most files that run beside each other, because a file that waits takes no processor, but memory. */
const MOST_BESIDE = 14
/** How soon a run sees that another one has given a share back, and whether the machine keeps up with what has begun. */
const LOOK_MS = 100
/** If processors rest less than this part of their time, the machine is slow today, or others use it, too. */
const LEAST_IDLE = 0.05
/** A machine is late if files take this many times what weights.json has for them: there, tests that wait fail of themselves. */
const LATE = 1.25
/** The number of failures that may be accidents; on a machine that is late, whole runs have had up to five. */
const MOST_ACCIDENTS = 2
const MOST_ACCIDENTS_LATE = 8

/**
 * Runs test files and shows each when it has ended, and at the end what failed. Those that take longest begin first, and beside
 * each other run as many as keep `processors` busy. A file that takes longer than `limitMs` is ended with all that it has started,
 * and fails; so does one that leaves a process behind, which is ended too. SIGINT and SIGTERM end all of them.
 *
 * @param weightOf says of a path what it is expected to take: `{ cpu, wall }`, in seconds
 * @returns per file: the numbers of tests that passed, failed and were skipped; its time and its processor time, in seconds; and
 *   its tests, as `{ title, outcome, reason }`
 */
export async function runFiles(paths, { processors, weightOf, limitMs, lingerMs = LINGER_MS }) {
  const results = new Map()
  const failures = []
  const usage = mkdtempSync(join(tmpdir(), 'spoold-test-usage-'))
  markWhatStarts(usage)
  const endAll = () => {
    say('ended with this run', endStartedBy())
    process.exit(1)
  }
  for (const signal of SIGNALS) process.once(signal, endAll)
  await inTurn(paths, { processors, weightOf }, async path => {
    const { result, shown, failed } = await runFile(path, limitMs)
    await lookBehind(path, result, lingerMs)
    result.cpu = cpuOf(path, usage)
    results.set(path, result)
    process.env.SPOOLD_TEST_PACE = String(paceOf(results, weightOf)) // for test/helpers/until.ts
    process.stdout.write(shown)
    if (failed !== '') failures.push(failed)
  })
  for (const signal of SIGNALS) process.off(signal, endAll)
  rmSync(usage, { recursive: true })
  if (failures.length > 0) process.stdout.write(`\n✖ failing tests:\n${failures.join('')}`)
  return results
}

/** Returns how many times the expected time the passed files took; a file that failed may have waited in vain. */
function paceOf(results, weightOf) {
  const passed = [...results].filter(([, { failed }]) => failed === 0)
  const sum = secondsOf => passed.reduce((total, each) => total + secondsOf(each), 0)
  return passed.length === 0 ? 1 : sum(([, { seconds }]) => seconds) / sum(([path]) => weightOf(path).wall)
}

/** Runs each file that failed beside others once more, alone, and keeps the result; unless more failed than may be accidents. */
export async function runAgain(results, { nameOf, weightOf, limitMs, lingerMs }) {
  const suspects = [...results.keys()].filter(path => results.get(path).failed > 0).sort()
  if (suspects.length === 0) return
  const pace = paceOf(results, weightOf)
  const most = pace > LATE ? MOST_ACCIDENTS_LATE : MOST_ACCIDENTS
  const mayRun = suspects.length <= most
  console.log(`${mayRun ? 'again, alone' : 'not again, too many failed'}: ${suspects.map(nameOf).join(', ')}`)
  console.log(`again: at most ${most}, as files took ${pace.toFixed(2)} times what weights.json has for them`)
  for (const path of suspects)
    for (const line of failuresOf(nameOf(path), results.get(path))) console.log(`again: ${line}`)
  if (!mayRun) return
  for (const [path, result] of await runFiles(suspects, { processors: 0, weightOf, limitMs, lingerMs }))
    results.set(path, result)
}

/** Returns why each test of a file failed, in a line each. */
export function failuresOf(name, { tests }) {
  return tests
    .filter(({ outcome }) => outcome === 'failed')
    .map(({ title, reason }) => `${name}: ${title}: ${reason}`)
}

/**
 * Acts on all paths, and always on one at least. Another one begins when the processors have rested lately, and the shares of a
 * processor that the files take add up to no more than there are: those of other runs on this machine, too, which keep them in
 * the same directory.
 */
async function inTurn(paths, { processors, weightOf }, act) {
  const share = path => weightOf(path).cpu / weightOf(path).wall
  const waiting = [...paths].sort((a, b) => weightOf(b).wall - weightOf(a).wall)
  const running = new Map()
  const shares = new Shares()
  const rest = new Rest()
  const next = () => {
    const { taken, count } = shares.sum()
    const isRoom = count < MOST_BESIDE && rest.isThere()
    const fits = path => running.size === 0 || (isRoom && taken + share(path) <= processors)
    const index = waiting.findIndex(fits)
    return index < 0 ? undefined : waiting.splice(index, 1)[0]
  }
  while (waiting.length > 0) {
    for (let path = next(); path !== undefined; path = next()) {
      const ending = path
      const giveBack = shares.take(share(ending))
      running.set(
        ending,
        act(ending).then(() => {
          running.delete(ending)
          giveBack()
        }),
      )
    }
    if (waiting.length > 0) await Promise.race([...running.values(), sleep(LOOK_MS)])
  }
  console.log('all have begun') // .ci/run waits for this line
  await Promise.all(running.values())
}

/** Tells whether the processors of this machine have had nothing to do now and then, since somebody asked last. */
class Rest {
  #seen = ticks()
  #seenAt = performance.now()

  /** Returns true at most once per look, because what has begun since is not seen before. */
  isThere() {
    if (performance.now() - this.#seenAt < LOOK_MS) return false
    const [before, now] = [this.#seen, ticks()]
    this.#seen = now
    this.#seenAt = performance.now()
    return now.idle - before.idle >= LEAST_IDLE * (now.all - before.all)
  }
}

/** Returns how long the processors of this machine have had nothing to do since it started, and how long they have been there. */
export function ticks() {
  const all = cpus().map(({ times }) => times)
  const sum = of => all.reduce((total, times) => total + of(times), 0)
  return {
    idle: sum(({ idle }) => idle),
    all: sum(({ user, nice, sys, idle, irq }) => user + nice + sys + idle + irq),
  }
}

/** The shares of the processors that the running files take: an empty file each, named by its share and its runner. */
class Shares {
  #directory = process.env.SPOOLD_TEST_SHARES ?? mkdtempSync(join(tmpdir(), 'spoold-test-shares-'))
  #count = 0

  constructor() {
    mkdirSync(this.#directory, { recursive: true })
    if (process.env.SPOOLD_TEST_SHARES === undefined)
      process.on('exit', () => rmSync(this.#directory, { recursive: true, force: true }))
  }

  /** Takes a share. @returns the function that gives it back */
  take(share) {
    const path = join(this.#directory, `${share.toFixed(3)}-${process.pid}-${++this.#count}`)
    writeFileSync(path, '')
    return () => rmSync(path, { force: true })
  }

  sum() {
    const all = readdirSync(this.#directory)
      .map(name => name.split('-').map(Number))
      .filter(([, pid]) => isAlive(pid))
    return { taken: all.reduce((sum, [share]) => sum + share, 0), count: all.length }
  }
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Runs a file in a stream of its own: an event says where its test was written, which may be a suite that files share. */
async function runFile(path, limitMs) {
  const result = { passed: 0, failed: 0, skipped: 0, seconds: 0, cpu: undefined, tests: [] }
  const since = performance.now()
  // Not `timeout`: since Node 24 that is one per test, and a file that hangs between its tests is never ended.
  const limit = setTimeout(
    () => say(`${path} did not end within ${limitMs / 1000} s: ended`, endStartedBy(path)),
    limitMs,
  )
  const stream = run({ files: [path], concurrency: 1 })
  const suites = []
  stream.on('test:start', ({ name, nesting }) => suites.splice(nesting, suites.length, name))
  const note = (outcome, { name, nesting, skip, details }) => {
    const title = [...suites.slice(0, nesting), name].join(' › ')
    const reason = typeof skip === 'string' ? skip : details?.error && firstLine(details.error)
    result.tests.push({ title, outcome, ...(reason === undefined ? {} : { reason }) })
  }
  const count = (outcome, test) => {
    result[outcome]++
    note(outcome, test)
  }
  stream.on('test:pass', test => {
    if (test.name === path) return
    if (test.details?.type !== 'suite') count(test.skip === undefined ? 'passed' : 'skipped', test)
    else if (test.skip !== undefined) note('skipped', test) // none of its tests runs
  })
  stream.on('test:fail', test => {
    if (test.details?.type === 'suite' && test.details.error?.failureType === 'subtestsFailed') return
    count('failed', test)
  })
  const all = await text(stream.compose(withoutSums).compose(new spec()))
  clearTimeout(limit)
  result.seconds = (performance.now() - since) / 1000
  const at = [...all.matchAll(FAILURES)].at(-1)
  if (at === undefined) return { result, shown: all, failed: '' }
  return { result, shown: all.slice(0, at.index), failed: all.slice(at.index + at[0].length) }
}

/** Returns the first line of what a test threw, which the runner has wrapped, and for a bare assertion what it compares. */
function firstLine({ cause, message }) {
  const [first, ...others] = String(cause?.message ?? cause ?? message).split('\n')
  return first.endsWith(':') ? `${first} ${others.find(line => line !== '') ?? ''}` : first
}

/** Leaves out the sums, because each file would say how many tests it had. */
async function* withoutSums(events) {
  for await (const event of events)
    if (event.type !== 'test:diagnostic' || event.data.nesting > 0) yield event
}

async function lookBehind(path, result, lingerMs) {
  for (let waited = 0; waited < lingerMs && startedBy(path).length > 0; waited += LINGER_STEP_MS)
    await sleep(LINGER_STEP_MS)
  const left = endStartedBy(path)
  if (left.length === 0) return
  result.failed++
  result.tests.push({ title: 'its end', outcome: 'failed', reason: 'it left processes behind' })
  say(`${path} left processes behind: ended`, left)
}

/** Returns the processor time of a file; undefined if its process was killed. */
function cpuOf(path, usage) {
  try {
    return Number(readFileSync(usageFile(usage, path), 'utf8'))
  } catch {
    return undefined
  }
}

function say(line, processes) {
  process.stdout.write(`${[line, ...processes].join('\n  ')}\n`)
}
