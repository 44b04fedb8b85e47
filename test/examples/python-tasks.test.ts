import assert from 'node:assert/strict'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { ROOT, workspace } from '../helpers/workspace.js'
import { pythonEnv } from '../hosts/named-host.js'

describe('the example of named tasks in Python', { skip: skipUnless('python3') }, () => {
  it('schedules a task for each request, and the daemon runs them', async () => {
    const directory = join(workspace(), 'python-tasks')
    cpSync(join(ROOT, 'spool-examples/python-tasks'), directory, { recursive: true })
    const spool = join(directory, 'spool')
    mkdirSync(spool, { recursive: true })
    const web = new TestProcess(PYTHON, ['web.py', '0'], { cwd: directory, env: pythonEnv(spool) })
    await web.waitFor(/http:\S+\n/)
    const url = web.output.trim()
    for (const to of ['jane@example.com', 'jane']) {
      const response = await fetch(`${url}/?to=${to}`)
      assert.equal(response.status, 202)
      assert.match(await response.text(), /^[0-9a-f-]{36}\n$/)
    }
    assert.equal(leftIn(spool).length, 2)
    const { code, stdout, stderr } = await spoold(['--drain', join(directory, 'app.ini')], {
      env: pythonEnv(),
    })
    assert.equal(code, 3, stderr) // one task is a dead letter
    assert.match(stdout + stderr, /a mail to jane@example.com about your order/)
    assert.match(stdout + stderr, /send-mail has failed for good: not an address: jane/)
    assert.deepEqual(leftIn(spool), [])
  })
})
