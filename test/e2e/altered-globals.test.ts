import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Drains five tasks in one worker, whose second task runs the code `what`. */
async function drain(what: string) {
  const spool = spoolDirectory()
  for (let i = 1; i <= 5; i++)
    drop(spool, `uwsgi_spoolfile_on_${i}`, packet(i === 2 ? { alters: 'yes' } : {}))
  const daemon = await startDaemon({
    spool,
    handler: `
export default async (env, task) => {
  JOURNAL(task.name)
  for (const since = performance.now(); performance.now() < since + 6; ); // so long that it reads messages after each
  if (env.alters) { ${what} }
  return task.SPOOL_OK
}`,
    ini: { drain: true, 'spooler-ordered': true },
    isUnready: true,
  })
  return { code: await daemon.code(), left: leftIn(spool), daemon }
}

describe('globals that a handler alters in its worker', { concurrency: 2 }, () => {
  it('do not make a task wait as one for later when the clock is fake', async () => {
    const { code, left, daemon } = await drain(
      'globalThis.Date = class extends Date { static now() { return 0 } }',
    )
    assert.deepEqual(left, [])
    assert.match(daemon.output, /^drained: 5 done$/m)
    assert.equal(code, 0)
  })

  it('do not stop the worker when timers never fire', async () => {
    const names = ['setTimeout', 'setImmediate', 'setInterval']
    const { code, daemon } = await drain(
      names.map(name => `globalThis.${name} = () => ({ unref() {} })`).join('\n'),
    )
    assert.match(daemon.output, /^drained: 5 done$/m)
    assert.equal(code, 0)
  })

  it('end the worker with one logged exception when timers are missing and an error is thrown', async () => {
    const { code, daemon } = await drain(`
      setImmediate(() => { throw new Error('outside') })
      delete globalThis.setTimeout`)
    assert.match(daemon.output, /^drained: 5 done$/m)
    assert.equal(code, 0)
    assert.equal(daemon.output.match(/uncaught exception/g)?.length, 1)
  })
})
