import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { readIni, splitSetting } from '#src/formats/ini/lines.js'

/** Words that mean something to other readers of ini files, and nothing to uWSGI. */
const word = fc.constantFrom(
  ...['a', 'B7', '-', '=', ' ', '  ', '\t', ';', '#', '"', "'", '\\', '[', ']', '[]', '.', ':', '/'],
  ...['true', 'null', '__proto__', '%(x)', 'ü', '\u2028', '\u00a0', '\ufeff', '😀'],
)
const text = fc.array(word, { maxLength: 8 }).map(words => words.join(''))

const strip = (s: string) => s.replace(/^[ \t\r]+|[ \t\r]+$/g, '')

describe('a line of an ini file', () => {
  it('is a name up to the first =, and a value that is taken as it is', () => {
    fc.assert(
      fc.property(text, text, fc.boolean(), (left, right, hasValue) => {
        const line = strip(hasValue ? `${left}=${right}` : left)
        fc.pre(line !== '' && !/^[;#[]/.test(line))
        const cut = line.indexOf('=')
        const expected = cut < 0 ? [line, ''] : [strip(line.slice(0, cut)), strip(line.slice(cut + 1))]
        assert.deepEqual(splitSetting(line), expected)
      }),
      { numRuns: 3000 },
    )
  })

  it('of the wanted section is returned with its number, and every section with its name', () => {
    const lines = ['a = 0', '[x.y]', 'b = 1', '; c', '[]', '[uwsgi]', '', 'b = 2', 'b=2', '[x.y]', 'flag']
    const numbered = lines.map((line, i) => ({ number: i + 1, text: line }))
    const read = (section: string) => {
      const { settings } = readIni(numbered, 'app.ini', section)
      return settings.map(({ key, value, where: { line } }) => [line, key, value])
    }
    assert.deepEqual(read('uwsgi'), [
      [8, 'b', '2'],
      [9, 'b', '2'],
    ])
    assert.deepEqual(read('x.y'), [
      [3, 'b', '1'],
      [11, 'flag', ''],
    ])
    assert.deepEqual(readIni(numbered, 'app.ini').sections, ['x.y', '', 'uwsgi'])
  })
})
