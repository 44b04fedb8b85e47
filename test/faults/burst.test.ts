import assert from 'node:assert/strict'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('a burst of 100,000 tasks', () => {
  it('is found whole, although the event queue of the kernel holds 16,384', async () => {
    const spool = spoolDirectory()
    const counter = `let n = 0
      export default (env, task) => { if (++n % 10000 === 0 || n > 99990) JOURNAL(String(n)); return task.SPOOL_OK }`
    const daemon = await startDaemon({
      spool,
      handler: counter,
      ini: { 'spooler-quiet': true, 'spooler-frequency': 3 },
    })
    const aside = join(dirname(spool), 'aside')
    mkdirSync(aside)
    const bytes = packet({ a: 'b' })
    for (let i = 0; i < 100_000; i++) writeFileSync(join(aside, `t${i}`), bytes)
    for (let i = 0; i < 100_000; i++) renameSync(join(aside, `t${i}`), join(spool, `t${i}`))
    await until('all tasks have run', () => daemon.journal().includes('100000'), 60_000)
    assert.deepEqual(leftIn(spool), [])
  })
})
