import assert from 'node:assert/strict'
import { it } from 'node:test'
import { urlTextOf } from '#src/dashboard/spools.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { send, startDashboard } from '../helpers/dashboard.js'
import { stored } from '../helpers/dashboard-tasks.js'
import { until } from '../helpers/until.js'

it('the page of parked tasks names them, with the reason', async () => {
  const { place, spool } = await startDashboard({
    hasTokens: false,
    handler:
      "import { Tasks } from 'spoold'\nexport const tasks = new Tasks()\ntasks.task('known', {}, () => {})",
  })
  assert.equal((await spoold(['pause', spool, '--key', 'task=known'])).code, 0)
  const unknown = await stored(spool, 'task=no-such', 'args=[]')
  const paused = await stored(spool, 'task=known', 'args=[]')
  await until('both are parked', async () => {
    const { parked } = (await spoolSnapshotOf(spool)).tasks
    return parked['unknown-name'] === 1 && parked.paused === 1
  })
  const { text } = await send(place, '/spools/spool/parked')
  for (const [name, reason] of [
    [unknown, 'unknown-name'],
    [paused, 'paused'],
  ] as const) {
    const row = new RegExp(`<tr[^>]*>(?:(?!</tr>).)*>${reason}</td>.*?</tr>`, 's').exec(text)?.[0] ?? ''
    assert.ok(row.includes(`/spools/spool/tasks/${urlTextOf(name)}`), reason)
  }
})
