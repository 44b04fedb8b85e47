import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Calls } from '#src/runtime/worker/hosts/calls.js'
import { WorkerSignals } from '#src/runtime/worker/signal-actions.js'

it('a call of a host that has the name of a member of every object is refused as one that does not exist', async () => {
  const unused = () => assert.fail('nothing was asked for')
  const calls = new Calls({
    ...{ targets: [], signals: new WorkerSignals(unused), loaded: unused, runSignal: unused },
    ...{ send: unused, ask: unused, setDeadline: unused },
  })
  for (const name of ['constructor', 'toString', '__proto__'])
    await assert.rejects(calls.answer(name, []), { message: `spoold has no call ${name}` })
})
