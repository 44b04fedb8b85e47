import assert from 'node:assert/strict'
import { it } from 'node:test'
import { optionsPage } from '#src/cli/options-page.js'
import { Page } from '../helpers/markdown.js'

it('docs/options.md is what `npm run docs` writes', () => {
  assert.equal(new Page('docs/options.md').text, optionsPage())
})
