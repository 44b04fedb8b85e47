import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { cutPrintable, printable, printableLines } from '#src/base/printable.js'

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

describe('escaped text that is too long', () => {
  it('is cut between what stands for its characters, and not inside an escape or a character', () => {
    const text = `é${printable('\x1b\u202e\u{e0041}')}\\n\\\\x41😀`
    const cuts = Array.from({ length: text.length + 1 }, (_, longest) => cutPrintable(text, longest))
    const whole = ['é', '\\x1b', '\\u202e', '\\u{e0041}', '\\n', '\\\\', 'x', '4', '1', '😀']
    const ends = whole.map((_, n) => `${whole.slice(0, n).join('')}…`)
    assert.deepEqual([...new Set(cuts)], [...ends, text])
    for (const [longest, cut] of cuts.entries()) assert.ok(cut.length <= Math.max(1, longest), cut)
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
