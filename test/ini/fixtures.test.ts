import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcessAt } from '../helpers/cli.js'
import { FIXTURES } from '../helpers/workspace.js'

const HERE = join(FIXTURES, 'ini')

describe('spoold check prints all that there is to say about', () => {
  for (const file of readdirSync(HERE).filter(name => name.endsWith('.ini')))
    it(file, async () => {
      const expected = readFileSync(join(HERE, `${basename(file, '.ini')}.expected`), 'utf8')
      const { code, stdout, stderr } = await inProcessAt(HERE, ['check', file])
      assert.equal(stdout.replaceAll(HERE, '<here>'), expected)
      assert.equal(stderr, '')
      assert.equal(code, expected.includes(': error: ') ? 1 : 0)
    })
})
