import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, it } from 'node:test'
import { allPages, Page } from '../helpers/markdown.js'
import { ROOT } from '../helpers/workspace.js'

describe('every relative link resolves', () => {
  for (const page of allPages())
    it(page.name, () => {
      const relative = page.links.filter(target => !/^[a-z]+:/.test(target))
      assert.deepEqual(
        relative.filter(target => !resolves(page, target)),
        [],
      )
    })
})

function resolves(from: Page, target: string): boolean {
  const [path = '', anchor] = target.split('#')
  const name = path === '' ? from.name : normalize(join(dirname(from.name), path))
  if (!existsSync(join(ROOT, name))) return false
  return anchor === undefined || new Page(name).anchors.has(anchor)
}
