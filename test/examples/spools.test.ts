import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { TestProcess } from '../helpers/process.js'
import { until } from '../helpers/until.js'
import { BIN, ROOT } from '../helpers/workspace.js'

const EXAMPLE = join(ROOT, 'spool-examples/spools')

it('the example of spools with different settings does what its README says', async () => {
  after(() => {
    for (const made of ['mail', 'reports']) rmSync(join(EXAMPLE, made), { recursive: true, force: true })
  })
  const [mail, reports, ini] = ['mail', 'reports', 'app.ini'].map(name => join(EXAMPLE, name))
  assert.ok(mail !== undefined && reports !== undefined && ini !== undefined)
  const daemon = new TestProcess(process.execPath, [BIN, ini])
  await daemon.waitFor(/is running/)
  assert.equal(daemon.workers().length, 3)
  const enqueue = async (spool: string, task: string) =>
    (await spoold(['enqueue', '--spooler', spool, task])).stdout.trim()
  const sent = await enqueue(mail, 'to=joe@example.com')
  const made = await enqueue(reports, 'month=May')
  const failing = await enqueue(mail, 'to=nowhere')
  await daemon.waitFor(/^process \d+ sends a mail to joe@example\.com/m)
  await daemon.waitFor(/^process \d+ makes the report for May/m)
  await until('both tasks are done', () => !existsSync(sent) && !existsSync(made))
  await until('the third task is a dead letter', () => !existsSync(failing))
  const dead = await spoold(['ls', '--state', 'dead', mail])
  assert.match(dead.stdout, /attempts/)
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
  assert.match(daemon.output, /done with task .*\n/)
  assert.equal(daemon.output.match(/done with task/g)?.length, 1)
  const { stdout } = await spoold(['config', ini])
  assert.match(stdout, /; {3}spooler-harakiri = 60 \(.*app\.ini:4\)/)
  assert.match(stdout, /; {3}spooler-harakiri = 3600 \(.*app\.ini:10\)/)
})
