import assert from 'node:assert/strict'
import { it } from 'node:test'
import { describe, messageOf, toError } from '#src/base/errors.js'

it('an error without a message has those of its causes, its code or its name', () => {
  const refused = (address: string) =>
    Object.assign(new Error(`connect ECONNREFUSED ${address}`), { code: 'ECONNREFUSED' })
  const both = new AggregateError([refused('::1:3031'), refused('127.0.0.1:3031')])
  assert.equal(messageOf(both), 'connect ECONNREFUSED ::1:3031; connect ECONNREFUSED 127.0.0.1:3031')
  assert.equal(messageOf(new AggregateError([new Error('x'), new Error('x')])), 'x')
  assert.equal(messageOf(Object.assign(new Error(''), { code: 'ECONNRESET' })), 'ECONNRESET')
  assert.equal(messageOf(new RangeError('')), 'RangeError')
  assert.equal(messageOf(new Error('said')), 'said')
})

it('an error has text for a message, whatever was thrown', () => {
  const said = new Error('said')
  assert.equal(toError(said), said)
  assert.equal(
    toError(Object.assign(new Error('x'), { message: { code: 5 } })).message,
    'its message is an object (Object)',
  )
  assert.equal(toError(Object.assign(new Error('said'), { name: 5 })).message, 'said')
  const unreadable = new Proxy(
    {},
    {
      get() {
        throw new Error('never')
      },
    },
  )
  assert.equal(toError(unreadable).message, 'a handler threw an object (which cannot be read)')
  assert.equal(describe({ constructor: { name: Symbol('x') } }), 'an object (Symbol(x))')
})
