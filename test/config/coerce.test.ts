import assert from 'node:assert/strict'
import { it } from 'node:test'
import { coerce } from '#src/formats/config/coerce.js'
import { findOption } from '#src/formats/config/option-table.js'

it('a time becomes milliseconds, whatever its unit', () => {
  const spec = findOption('spooler-harakiri')
  assert.ok(spec !== undefined)
  for (const [text, ms] of [
    ['90', 90_000],
    ['1.5', 1500],
    ['10m', 600_000],
    ['1h30m', 5_400_000],
    ['500ms', 500],
    [' 2d ', 172_800_000],
  ] as const)
    assert.deepEqual(coerce(spec, text), { value: ms }, text)
})

it('a flag may have a word of its own beside true and false', () => {
  const spec = findOption('spooler-ordered')
  assert.ok(spec !== undefined)
  for (const [text, value] of [
    ['age', 'age'],
    ['', true],
    ['no', false],
  ] as const)
    assert.deepEqual(coerce(spec, text), { value }, text)
  assert.deepEqual(coerce(spec, 'old'), {
    value: true,
    warning: 'expected true, age or false, got "old", which counts as true',
  })
})
