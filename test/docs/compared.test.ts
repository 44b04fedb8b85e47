import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { DIFFERENCES } from '../engines/conformance/differences.js'
import { Page } from '../helpers/markdown.js'
import { ROOT } from '../helpers/workspace.js'

const page = new Page('docs/tasks-compared.md')
const FILE = (name: string) => join(ROOT, 'test', `${name}.test.ts`)
/** Matches a test that starts a Redis, or that runs over each engine. */
const REACHES_REDIS =
  /startRedis|startWatched|machines\/scene\.js|\.\/engines\.js|conformance\/engines\.js|\.\/stores\.js/

/** A cell, and the tests to which it links. */
interface Cell {
  readonly text: string
  readonly tests: readonly string[]
}

const rows = page.text
  .split('\n')
  .filter(line => line.startsWith('| ') && !line.startsWith('| Spinach |'))
  .map(line => {
    const [, what = '', ...others] = line.split('|').map(cell => cell.trim())
    const [python, javascript, redis] = others.map(cellOf)
    assert.ok(python && javascript && redis, line)
    return { what, python, javascript, redis }
  })

function cellOf(text: string): Cell {
  const tests = [...text.matchAll(/\[`([\w-]+(?:\/[\w-]+)+)`\]/g)].map(([, name = '']) => name)
  return { text, tests }
}

it('docs/tasks-compared.md has a row for each chapter of the manual that promises something', () => {
  assert.deepEqual(
    page.headings(2).map(title => Number(title.split(' ')[0])),
    [2, 3, 4, 5, 6, 7, 8, 9],
  )
  assert.ok(rows.length > 60, `${rows.length}`)
})

it('each row links to a test for Python and one for JavaScript, and these tests exist', () => {
  for (const { what, python, javascript, redis } of rows) {
    assert.ok(
      python.tests.some(name => name.startsWith('hosts/')),
      `${what}: no test in Python`,
    )
    if (javascript.text !== '–')
      assert.ok(
        javascript.tests.some(name => !name.startsWith('hosts/')),
        `${what}: no test in JavaScript`,
      )
    const all = [python, javascript, redis].flatMap(({ tests }) => tests)
    assert.deepEqual(
      all.filter(name => !existsSync(FILE(name)) || !page.links.includes(`../test/${name}.test.ts`)),
      [],
      what,
    )
  }
})

it('each feature of Spinach has a test on Redis, too, unless it uses no spool', () => {
  for (const { what, redis } of rows) {
    if (redis.text === 'uses no spool') continue
    assert.notDeepEqual(redis.tests, [], what)
    const others = redis.tests.filter(name => !REACHES_REDIS.test(readFileSync(FILE(name), 'utf8')))
    assert.deepEqual(others, [], `these reach no Redis: ${what}`)
  }
})

it('no difference between the engines takes a feature of Spinach away', () => {
  for (const { what, why, spinach, kept } of DIFFERENCES) {
    assert.ok(why.length > 0, what)
    assert.equal(
      kept !== undefined,
      spinach !== undefined,
      `${what}: the table does not say how the feature is kept`,
    )
    if (spinach === undefined) continue
    assert.notEqual(
      rows.filter(row => row.what.startsWith(spinach)).length,
      0,
      `${spinach} is not in exactly one row`,
    )
  }
})
