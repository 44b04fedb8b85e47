import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { ROOT } from '../helpers/workspace.js'

const PROMISES = 12

it('docs/development.md names a short test for each promise and each part of README', async () => {
  const page = readFileSync(join(ROOT, 'docs/development.md'), 'utf8')
  const [, section = ''] = page.split('## Which tests are short\n')
  const [promises = [], readme = []] = section
    .split('\n\n')
    .filter(block => block.startsWith('| '))
    .map(table => table.trim().split('\n').slice(2))
  assert.equal(promises.length, PROMISES)
  const { isShort } = await import(join(ROOT, 'test/lanes.mjs'))
  for (const row of [...promises, ...readme]) {
    const files = [...(row.split('|').at(-2) ?? '').matchAll(/`(.+?)`/g)].map(([, name]) => `${name}.test`)
    assert.notEqual(files.length, 0, row)
    for (const file of files) {
      assert.ok(existsSync(join(ROOT, 'test', `${file}.ts`)), `${file}.ts is missing: ${row}`)
      assert.ok(isShort(`${file}.js`), `npm test leaves ${file}.ts out: ${row}`)
    }
  }
})
