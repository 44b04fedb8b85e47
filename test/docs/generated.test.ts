import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { ROOT, workspace } from '../helpers/workspace.js'

it('docs/options.md is what `npm run docs` writes', () => {
  const check = (root: string) =>
    spawnSync(process.execPath, [join(root, 'docs/generate.mjs'), '--check'], { encoding: 'utf8' })
  assert.deepEqual([check(ROOT).stderr, check(ROOT).status], ['', 0])

  const copy = workspace()
  cpSync(join(ROOT, 'docs'), join(copy, 'docs'), { recursive: true })
  symlinkSync(join(ROOT, 'build'), join(copy, 'build'))
  const page = join(copy, 'docs/options.md')
  writeFileSync(page, readFileSync(page, 'utf8').replace('| `30` |', '| `31` |'))
  const { stderr, status } = check(copy)
  assert.match(stderr, /options\.md is not current; run "npm run docs"\n$/)
  assert.equal(status, 1)
})
