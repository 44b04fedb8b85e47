import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { ROOT, workspace } from '../helpers/workspace.js'

it('docs/options.md and docs/status.md are what `npm run docs` writes', () => {
  const check = (root: string) =>
    spawnSync(process.execPath, [join(root, 'docs/generate.mjs'), '--check'], { encoding: 'utf8' })
  assert.deepEqual([check(ROOT).stderr, check(ROOT).status], ['', 0])

  const copy = workspace()
  cpSync(join(ROOT, 'docs'), join(copy, 'docs'), { recursive: true })
  symlinkSync(join(ROOT, 'build'), join(copy, 'build'))
  for (const [name, from, to] of [
    ['options.md', '| `30` |', '| `31` |'],
    ['status.md', '| `atMs` | `number` |', '| `atMs` | `string` |'],
  ] as const) {
    const page = join(copy, 'docs', name)
    const text = readFileSync(page, 'utf8')
    assert.notEqual(text.replace(from, to), text)
    writeFileSync(page, text.replace(from, to))
    const { stderr, status } = check(copy)
    assert.ok(stderr.endsWith(`${name} is not current; run "npm run docs"\n`), stderr)
    assert.equal(status, 1)
    writeFileSync(page, text)
  }
})
