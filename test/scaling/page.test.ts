import assert from 'node:assert/strict'
import { join } from 'node:path'
import { it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { ROOT } from '../helpers/workspace.js'

it('docs/scaling.md has the figures of the simulator; `node docs/scaling-table.mjs` writes them', async () => {
  const { parts, scalingTable } = await import(pathToFileURL(join(ROOT, 'docs/scaling-table.mjs')).href)
  assert.equal(parts()[1], await scalingTable())
})
