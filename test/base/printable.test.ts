import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { printable, printableLines } from '#src/base/printable.js'

describe('a name for people', () => {
  it('escapes what a terminal would obey, and what turns the direction of text around', () => {
    assert.equal(
      printable('a\nb\x1b[2J\u202egpj.exe\u2066\u2028\u00ad'),
      'a\\x0ab\\x1b[2J\\u202egpj.exe\\u2066\\u2028\\xad',
    )
    assert.equal(printable('\u{e0041}tag'), '\\u{e0041}tag')
  })

  it('is otherwise unchanged', () => {
    assert.equal(printable('café 日本 {5/7}'), 'café 日本 {5/7}')
  })
})

describe('text for people', () => {
  it('is one line, and indented lines after it, whatever it contains', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), text => {
        const [first = '', ...rest] = printableLines(text).split('\n')
        for (const line of [first, ...rest])
          assert.doesNotMatch(line, /[^\P{Cc}\t]|[\u202a-\u202e\u2028\u2029]/u)
        for (const line of rest) assert.match(line, /^ {2}/)
      }),
    )
  })
})
