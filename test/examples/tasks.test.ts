import assert from 'node:assert/strict'
import { cpSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { ROOT, workspace } from '../helpers/workspace.js'

/** Returns a copy of the example with the package installed beside it, as users have it. */
function installed(): string {
  const directory = join(workspace(), 'tasks')
  cpSync(join(ROOT, 'spool-examples/tasks'), directory, { recursive: true })
  mkdirSync(join(directory, 'node_modules'))
  symlinkSync(ROOT, join(directory, 'node_modules/spoold'))
  return directory
}

describe('the example of named tasks', () => {
  it('has tests that pass and leave the spool empty', async () => {
    const directory = installed()
    const words = ['-u', 'NODE_TEST_CONTEXT', process.execPath, '--test', 'web.test.mjs']
    const tests = new TestProcess('env', words, { cwd: directory }) // with the variable Node takes it for a part of this test
    assert.equal(await tests.code(60_000), 0, tests.output)
    assert.match(tests.output, /pass 2/)
    assert.deepEqual(leftIn(join(directory, 'spool')), [])
  })

  it('schedules tasks for each order, and the daemon runs them', async () => {
    const directory = installed()
    const web = new TestProcess(process.execPath, ['web.mjs', '0'], { cwd: directory })
    await web.waitFor(/http:\S+\n/)
    for (const to of ['joe@example.com', 'joe']) {
      const response = await fetch(`${web.output.trim()}/orders?to=${to}`, { method: 'POST' })
      assert.equal(response.status, 202)
      assert.match(await response.text(), /^\{"mail":"[0-9a-f-]{36}"\}$/)
    }
    assert.equal((await fetch(`${web.output.trim()}/nowhere`)).status, 404)
    assert.equal(leftIn(join(directory, 'spool')).length, 4)
    const { code, stdout, stderr } = await spoold(['--drain', join(directory, 'app.ini')])
    assert.equal(code, 3, stderr) // one task is a dead letter
    assert.match(stdout + stderr, /a mail to joe@example.com about your order/)
    assert.match(stdout + stderr, /\(send-mail\) is buried: not an address: joe/)
    assert.equal(leftIn(join(directory, 'spool')).length, 2, 'the reminders')
    web.child.kill('SIGTERM')
    assert.equal(await web.code(), 0)
  })

  it('runs its tasks itself with --embedded', async () => {
    const directory = installed()
    const web = new TestProcess(process.execPath, ['web.mjs', '0', '--embedded'], { cwd: directory })
    await web.waitFor(/http:\S+\n/)
    await fetch(`${web.output.trim()}/orders?to=joe@example.com`, { method: 'POST' })
    await web.waitFor(/a mail to joe@example.com about your order/)
    web.child.kill('SIGTERM')
    assert.equal(await web.code(), 0)
    assert.equal(leftIn(join(directory, 'spool')).length, 1, 'the reminder')
  })
})
