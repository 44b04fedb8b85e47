import assert from 'node:assert/strict'
import { it } from 'node:test'
import { messageOf } from '#src/base/errors.js'

it('an error without words has those of its causes, or its name', () => {
  const refused = (address: string) =>
    Object.assign(new Error(`connect ECONNREFUSED ${address}`), { code: 'ECONNREFUSED' })
  const both = new AggregateError([refused('::1:3031'), refused('127.0.0.1:3031')])
  assert.equal(messageOf(both), 'connect ECONNREFUSED ::1:3031; connect ECONNREFUSED 127.0.0.1:3031')
  assert.equal(messageOf(new AggregateError([new Error('x'), new Error('x')])), 'x')
  assert.equal(messageOf(Object.assign(new Error(''), { code: 'ECONNRESET' })), 'ECONNRESET')
  assert.equal(messageOf(new RangeError('')), 'RangeError')
  assert.equal(messageOf(new Error('said')), 'said')
})
