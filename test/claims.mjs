// The last step of .ci/run: `node test/claims.mjs RESULTS [CLAIMS]` fails when a test that a claim rests on did not run though
// what it needs is there. RESULTS is what all steps of tests wrote: SPOOLD_TEST_RESULTS names the file. CLAIMS is claims.json:
// section → claim → `file: suite › title` → what that test needs. An ellipsis in a title stands for whatever differs by run.
import { readFileSync } from 'node:fs'
import { isThere } from '../build/test/helpers/requires.js'

const [file, claims = new URL('claims.json', import.meta.url)] = process.argv.slice(2)
const results = readResults(file)
const rows = Object.entries(JSON.parse(readFileSync(claims, 'utf8'))).flatMap(([section, named]) =>
  Object.entries(named).flatMap(([claim, tests]) =>
    Object.entries(tests).map(([test, needs]) => ({ claim: `${section}: ${claim}`, test, needs })),
  ),
)
const judged = rows.map(row => ({ ...row, ...judge(row) }))
const of = verdict => judged.filter(row => row.verdict === verdict)

show('could not run, for want of what this machine lacks', of('lacking'))
show('failed or were left out, though all that they need is there', of('broken'))
console.log(
  `claims: ${new Set(rows.map(row => row.claim)).size}, on ${rows.length} tests: ${of('passed').length} passed, ` +
    `${of('lacking').length} could not run here, ${of('broken').length} failed or were left out`,
)
if (of('broken').length > 0 || rows.length === 0) process.exitCode = 1

function judge({ test, needs }) {
  const [, name, title] = /^(\S+): (.*)$/s.exec(test)
  const ran = results.filter(result => result.file === name && isMeant(title, result.title))
  if (ran.some(({ outcome }) => outcome === 'failed')) return { verdict: 'broken', reason: 'it failed' }
  const passed = new Set(ran.filter(({ outcome }) => outcome === 'passed').map(result => result.title))
  if (ran.length > 0 && ran.every(result => passed.has(result.title))) return { verdict: 'passed' }
  const missing = needs.filter(need => !isThere(need))
  if (missing.length > 0) return { verdict: 'lacking', reason: `needs ${missing.join(', ')}` }
  const skipped = ran.find(({ outcome }) => outcome === 'skipped') ?? skippedSuite(name, title)
  if (skipped === undefined) return { verdict: 'broken', reason: 'it did not run' }
  return { verdict: 'broken', reason: `it was skipped: ${skipped.reason ?? 'without a reason'}` }
}

/** Returns the result of a skipped suite above a test, because what is below a skipped suite has no results. */
function skippedSuite(name, title) {
  const parts = title.split(' › ')
  const suites = parts.map((_, i) => parts.slice(0, i).join(' › ')).slice(1)
  const isAbove = result => suites.some(suite => isMeant(suite, result.title))
  return results.find(result => result.file === name && result.outcome === 'skipped' && isAbove(result))
}

function isMeant(title, ran) {
  return new RegExp(`^${title.split('…').map(escaped).join('.*')}$`, 's').test(ran)
}

function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

function readResults(path) {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean)
  return lines.map((line, i) => {
    try {
      return JSON.parse(line)
    } catch (error) {
      throw new Error(`${path}:${i + 1}: expected a result as JSON, got ${line.slice(0, 80)}`, {
        cause: error,
      })
    }
  })
}

function show(heading, found) {
  if (found.length === 0) return
  console.log(`${heading}:`)
  for (const { claim, test, reason } of found) console.log(`  ${claim}\n    ${test}: ${reason}`)
}
