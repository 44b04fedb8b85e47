import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ERROR_CATALOGUE } from '#src/base/errors.js'
import { Page } from '../helpers/markdown.js'
import { TestProcess } from '../helpers/process.js'
import { BIN } from '../helpers/workspace.js'

describe('docs/errors.md', () => {
  const page = new Page('docs/errors.md')

  it('has one section for each code of the catalogue, in its order', () => {
    assert.deepEqual(page.headings(2), Object.keys(ERROR_CATALOGUE))
  })

  for (const section of page.text.split(/^## /m).slice(1)) {
    const [code = ''] = section.split('\n')
    it(`says what causes ${code} and what to do`, () => {
      assert.match(section, /\*\*Typical causes:\*\*/)
      assert.match(section, /\*\*What to do:\*\*/)
    })
  }

  it('is found by the code that the command line prints', async () => {
    const spoold = new TestProcess(process.execPath, [BIN, 'show', '/nowhere'])
    assert.equal(await spoold.code(), 1)
    assert.match(spoold.output, /^spoold: \[FILE_UNREADABLE\] \/nowhere does not exist: done or unknown$/m)
  })
})
