import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { merged, NO_REQUEST } from '#src/engines/spool/index/scan-request.js'

describe('requests for a scan', () => {
  it('become one, at the earliest time, and for all files if one of them was', () => {
    const soon = { at: 5, isForAll: false }
    const later = { at: 9, isForAll: true }
    assert.deepEqual(merged(NO_REQUEST, soon), soon)
    for (const [one, other] of [
      [soon, later],
      [later, soon],
    ] as const)
      assert.deepEqual(merged(one, other), { at: 5, isForAll: true })
  })
})
