import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { DIFFERENCES } from '../engines/conformance/differences.js'
import { ROOT } from '../helpers/workspace.js'

const page = readFileSync(join(ROOT, 'docs/tasks-compared.md'), 'utf8')
const rows = page.split('\n').filter(line => line.startsWith('| ') && !line.startsWith('| Spinach |'))
const FILE = (name: string) => join(ROOT, 'test', `${name}.test.ts`)
/** A test starts a Redis, or is one of those that run over each engine. */
const REACHES_REDIS =
  /startRedis|startWatched|machines\/scene\.js|\.\/engines\.js|conformance\/engines\.js|\.\/stores\.js/

function testsIn(row: string, column: number): string[] {
  return [...(row.split(' | ')[column] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
}

it('the tests that docs/tasks-compared.md names are there, one at least for each row', () => {
  assert.ok(rows.length > 20, `${rows.length}`)
  for (const row of rows) {
    assert.notDeepEqual(testsIn(row, 2), [], row)
    const missing = [...testsIn(row, 2), ...testsIn(row, 3)].filter(name => !existsSync(FILE(name)))
    assert.deepEqual(missing, [], row)
  }
})

it('each feature of Spinach has a test on Redis, too, unless it uses no spool', () => {
  for (const row of rows) {
    const tests = testsIn(row, 3)
    if (row.split(' | ')[3] === 'uses no spool') continue
    assert.notDeepEqual(tests, [], row)
    const others = tests.filter(name => !REACHES_REDIS.test(readFileSync(FILE(name), 'utf8')))
    assert.deepEqual(others, [], `these reach no Redis: ${row}`)
  }
})

it('no difference between the engines takes a feature of Spinach away', () => {
  for (const { what, why, spinach, kept } of DIFFERENCES) {
    assert.ok(why.length > 0, what)
    assert.equal(kept !== undefined, spinach !== undefined, `${what}: how is the feature kept?`)
    if (spinach === undefined) continue
    assert.equal(rows.filter(row => row.startsWith(`| ${spinach}`)).length, 1, `${spinach} is no row`)
  }
})
