import assert from 'node:assert/strict'
import { join } from 'node:path'
import { it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { ROOT } from '../helpers/workspace.js'

it('docs/scaling.md has the figures of the simulator and of the live runs; `node docs/scaling-table.mjs` writes them', async () => {
  const { readPage, writtenPage } = await import(pathToFileURL(join(ROOT, 'docs/scaling-table.mjs')).href)
  assert.equal(readPage(), await writtenPage())
})
