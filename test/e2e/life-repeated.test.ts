import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { act, startActor } from '../helpers/actor.js'
import { leftIn } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('workers that are killed', () => {
  it('one after the other, 30 times, lose no task', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 3, 'spooler-quiet': true })
    const numbers = Array.from({ length: 600 }, () => act(spool, 'ok'))
    for (let i = 0; i < 30; i++) {
      const done = daemon.journal().length
      await until('a task has run since', () => daemon.journal().length > done || leftIn(spool).length === 0)
      const worker = daemon.workers().at(i % 3)
      if (worker !== undefined && isAlive(worker)) process.kill(worker, 'SIGKILL')
      for (let j = 0; j < 10; j++) numbers.push(act(spool, 'ok'))
    }
    await until('all tasks have run', () => leftIn(spool).length === 0, 60_000)
    const ran = new Set(
      daemon
        .journal()
        .filter(line => line.startsWith('end'))
        .map(line => line.split(' ')[1]),
    )
    assert.deepEqual(
      numbers.filter(n => !ran.has(n)),
      [],
    )
  })
})

describe('reloads', () => {
  it('under load, ten times, lose no task and run none twice', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2, 'spooler-quiet': true })
    const numbers: string[] = []
    for (let i = 0; i < 10; i++) {
      for (let j = 0; j < 100; j++) numbers.push(act(spool, 'ok'))
      daemon.child.kill('SIGHUP')
      await until(
        'the reload is done',
        () => daemon.output.split('the spoolers are reloaded').length === i + 2,
      )
    }
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(
      daemon
        .journal()
        .filter(line => line.startsWith('end'))
        .map(line => line.slice(4))
        .sort(),
      [...numbers].sort(),
    )
  })
})
