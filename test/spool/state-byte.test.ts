import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { KICKED, ownState, type Past, pastOf, RECORDED, STATES } from '#src/engines/spool/state-byte.js'
import { ROOT } from '../helpers/workspace.js'

const hex = (state: number) => state.toString(16).toUpperCase().padStart(2, '0')

describe('the table of states', () => {
  it('says what each byte left, whatever lasts is on top', () => {
    for (const [state, past] of STATES)
      for (const more of [0, RECORDED, KICKED, RECORDED | KICKED]) {
        assert.equal(ownState(state | more), state | more, hex(state | more))
        assert.equal(pastOf(state | more), past, hex(state | more))
      }
  })

  it('knows what spoold 0.1.0 wrote', () => {
    const written: ReadonlyArray<readonly [byte: number, past: Past]> = [
      [0x01, 'none'], // failed before
      [0x03, 'done-if-recorded'],
      [0x08, 'none'],
      [0x80, 'died-alone'],
      [0x81, 'died-alone'],
      [0x84, 'died-beside'], // a suspect then
      [0x90, 'died-once'],
    ]
    for (const [byte, past] of written) assert.equal(pastOf(ownState(byte)), past, hex(byte))
  })

  it('takes foreign bits for no mark', () => {
    for (const byte of [0x20, 0xa0, 0xff, 0x04, 0x10, 0x40]) assert.equal(ownState(byte), 0, hex(byte))
  })

  it('stands in docs/spool-format.md', () => {
    const text = readFileSync(join(ROOT, 'docs/spool-format.md'), 'utf8')
    const rows = [...text.matchAll(/^\| (`[0-9A-F]{2}`(?:, `[0-9A-F]{2}`)*) \|/gm)]
    const documented = rows.flatMap(([, bytes = '']) => bytes.replaceAll('`', '').split(', '))
    assert.deepEqual(documented.sort(), STATES.map(([state]) => hex(state)).sort())
  })
})
