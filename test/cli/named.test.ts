import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Tasks } from '#src/index.js'
import { spoold } from '../helpers/cli.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { spoolDirectory } from '../helpers/workspace.js'

async function withTasks() {
  const spooler = spoolDirectory()
  const tasks = new Tasks({ spooler, sync: false })
  const mail = tasks.task('send-mail', (_to: string) => {})
  const scheduled = [await mail.scheduleAt('+1h', 'joe'), await mail.schedule('x'.repeat(70_000))]
  drop(spooler, 'plain', packet({ task: 'send-mail' }))
  drop(spooler, 'other', packet({ task: 'other', args: '[', kwargs: '{}' }))
  return { spooler, scheduled }
}

describe('named tasks on the command line', () => {
  it('are in ls --json and show --json as they were scheduled', async () => {
    const { spooler, scheduled } = await withTasks()
    const listed = (await spoold(['ls', '--json', '--task', 'send-mail', spooler])).stdout.trim().split('\n')
    const tasks = listed.map(line => JSON.parse(line))
    assert.equal(tasks.length, 3)
    const [waiting, large] = scheduled
    const of = (id: string | undefined) => tasks.find(({ task }) => task?.id === id)
    assert.deepEqual(of(waiting?.id).task, {
      ...waiting,
      at: waiting?.at.toISOString(),
      maxRetries: null,
    })
    assert.deepEqual([of(large?.id).task.status, of(large?.id).task.args], [2, null])
    assert.equal(tasks.filter(({ task }) => task === undefined).length, 1, 'a dictionary has no call')
    const shown = JSON.parse((await spoold(['show', '--json', join(spooler, of(large?.id).name)])).stdout)
    assert.deepEqual(shown.task.args, large?.args)
    const other = JSON.parse((await spoold(['show', '--json', join(spooler, 'other')])).stdout)
    assert.deepEqual([other.task.id, other.task.args], ['other', null])
  })

  it('are selected by --task, which matches their whole name alone', async () => {
    const { spooler } = await withTasks()
    assert.equal((await spoold(['rm', '--task', 'send', spooler])).stdout, '')
    const removed = await spoold(['rm', '--task', 'send-mail', spooler])
    assert.equal(removed.code, 0, removed.stderr)
    assert.deepEqual(leftIn(spooler), ['other'])
  })
})
