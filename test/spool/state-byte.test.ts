import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { KICKED, ownState, pastOf, RECORDED, STATES } from '#src/engines/spool/state-byte.js'
import { ROOT } from '../helpers/workspace.js'

const hex = (state: number) => state.toString(16).toUpperCase().padStart(2, '0')

describe('the table of states', () => {
  it('gives the past of each byte, whichever lasting bits are set, too', () => {
    for (const [state, past] of STATES)
      for (const more of [0, RECORDED, KICKED, RECORDED | KICKED]) {
        assert.equal(ownState(state | more), state | more, hex(state | more))
        assert.equal(pastOf(state | more), past, hex(state | more))
      }
  })

  it('treats a byte that it does not have as no mark', () => {
    for (const byte of [0x20, 0xa0, 0xff, 0x02, 0x03, 0x04, 0x10, 0x40])
      assert.equal(ownState(byte), 0, hex(byte))
  })

  it('has the bytes of the table in docs/spool-format.md', () => {
    const text = readFileSync(join(ROOT, 'docs/spool-format.md'), 'utf8')
    const rows = [...text.matchAll(/^\| (`[0-9A-F]{2}`(?:, `[0-9A-F]{2}`)*) \|/gm)]
    const documented = rows.flatMap(([, bytes = '']) => bytes.replaceAll('`', '').split(', '))
    assert.deepEqual(documented.sort(), STATES.map(([state]) => hex(state)).sort())
  })
})
