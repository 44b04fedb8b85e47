import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { ROOT } from '../helpers/workspace.js'

it('the tests that docs/tasks-compared.md names are there, one at least for each row', () => {
  const page = readFileSync(join(ROOT, 'docs/tasks-compared.md'), 'utf8')
  const rows = page.split('\n').filter(line => line.startsWith('| ') && !line.startsWith('| Spinach |'))
  assert.ok(rows.length > 20, `${rows.length}`)
  for (const row of rows) {
    const tests = [...(row.split(' | ')[2] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
    assert.notDeepEqual(tests, [], row)
    const missing = tests.filter(name => !existsSync(join(ROOT, 'test', `${name}.test.ts`)))
    assert.deepEqual(missing, [], row)
  }
})
