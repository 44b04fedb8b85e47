import assert from 'node:assert/strict'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { BIN, ROOT } from '../helpers/workspace.js'

const EXAMPLE = join(ROOT, 'spool-examples/signals')

it('the example of signals does what its README says', async () => {
  after(() => {
    for (const made of ['inbox', 'spool', 'app.sock'])
      rmSync(join(EXAMPLE, made), { recursive: true, force: true })
  })
  const ini = join(EXAMPLE, 'app.ini')
  const daemon = new TestProcess(process.execPath, [BIN, ini])
  await daemon.waitFor(/^it is \d/m)
  assert.equal((await spoold(['signal', '2', '--ini', ini])).code, 0)
  await daemon.waitFor('the daily report is made')
  writeFileSync(join(EXAMPLE, 'inbox/letter'), 'hello')
  await daemon.waitFor(/: got letter$/m)
  const other = join(EXAMPLE, 'not-in-the-inbox')
  writeFileSync(other, 'mine')
  after(() => rmSync(other, { force: true }))
  for (const name of [other, '../not-in-the-inbox', '..', '.', '']) {
    await spoold(['enqueue', '--spooler', join(EXAMPLE, 'spool'), `name=${name}`, `file=${other}`])
    await until('the task has run', () => leftIn(join(EXAMPLE, 'spool')).length === 0)
  }
  assert.deepEqual([existsSync(other), existsSync(join(EXAMPLE, 'inbox'))], [true, true])
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
})
