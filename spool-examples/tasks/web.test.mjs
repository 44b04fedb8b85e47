// node --test
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, it } from 'node:test'
import { fake } from 'spoold/testing'
import { remind, sendMail } from './tasks.mjs'
import { listen, spoold } from './web.mjs'

let server
let kit
before(async () => {
  server = await listen(0)
})
after(() => server.close())
beforeEach(() => {
  kit = fake(spoold) // nothing is stored, and nothing runs until the test says so
})
afterEach(() => kit.restore())

async function order(to) {
  const response = await fetch(`http://127.0.0.1:${server.address().port}/orders?to=${to}`, {
    method: 'POST',
  })
  assert.equal(response.status, 202)
}

it('an order is confirmed at once, and there is a reminder after two weeks', async () => {
  await order('joe@example.com')
  kit.assertScheduled(sendMail, ['joe@example.com', 'your order'], { times: 1 })
  kit.assertScheduled(remind, ['joe@example.com'])
  await kit.drain()
  assert.equal(kit.waiting(remind).length, 1)
  kit.advance('14d')
  await kit.drain()
  kit.assertScheduled(sendMail, ['joe@example.com', 'the bill that you have not paid'])
  assert.deepEqual(kit.failed(), [])
})

it('a mail to what is no address is not tried again', async () => {
  await order('joe')
  const [run] = await kit.drain()
  assert.equal(run.outcome, 'failed')
  assert.match(run.error.message, /not an address: joe/)
})
