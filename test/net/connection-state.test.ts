import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type ConnectionChange, type ConnectionState, changed } from '#src/doors/net/connection.js'

describe('a connection', () => {
  const CASES: ReadonlyArray<readonly [ConnectionState, readonly ConnectionChange[]]> = [
    ['open', ['body-begins', 'body-ended']],
    ['body', ['body-begins']],
    ['finishing-body', ['body-begins', 'finish']],
    ['finishing', ['body-begins', 'finish', 'body-ended']],
    ['finishing-body', ['finish', 'body-begins']],
    ['parting', ['answered', 'finish']],
    ['closed', ['finish', 'answered', 'ended', 'body-begins']],
  ]
  for (const [state, changes] of CASES)
    it(`is ${state} after ${changes.join(', ')}`, () => {
      assert.equal(changes.reduce<ConnectionState>(changed, 'open'), state)
    })
})
