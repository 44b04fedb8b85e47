import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { patience, until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Takes a second in which its process runs. */
const SECOND = `{
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (let i = 0; i < 20; i++) Atomics.wait(cell, 0, 0, 50)
}`
const SLOW = `export default (env, task) => { JOURNAL('begun'); ${SECOND}; return task.SPOOL_OK }`
const SLOW_START = `JOURNAL('begun'); ${SECOND}; export default (env, task) => task.SPOOL_OK`

describe('a daemon that is frozen with its processes for longer than a deadline', { concurrency: 3 }, () => {
  async function frozen(handler: string, option: string, isStopping = false) {
    const spool = spoolDirectory()
    drop(spool)
    const seconds = 3 * patience()
    const setup = { spool, handler, ini: { [option]: seconds }, isGroup: true, isUnready: true } as const
    const daemon = await startDaemon(setup)
    await until('it has begun', () => daemon.journal().length > 0)
    if (isStopping) {
      daemon.child.kill('SIGTERM')
      await daemon.waitFor('killing the spooler')
    }
    process.kill(-daemon.pid, 'SIGSTOP')
    const since = performance.now()
    await until('the deadline is over', () => performance.now() > since + 1000 * seconds)
    process.kill(-daemon.pid, 'SIGCONT')
    await until('the task has ended', () => leftIn(spool).length === 0)
    if (!isStopping) daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.doesNotMatch(daemon.output, /HARAKIRI|NO MERCY|still loading|killed by/)
    assert.equal(daemon.journal().length, 1)
  }

  it('lets a task run for the rest of spooler-harakiri', () => frozen(SLOW, 'spooler-harakiri'))

  it('lets a process start for the rest of spooler-start-timeout', () =>
    frozen(SLOW_START, 'spooler-start-timeout'))

  it('lets a task end within the rest of its mercy', () => frozen(SLOW, 'worker-reload-mercy', true))
})
