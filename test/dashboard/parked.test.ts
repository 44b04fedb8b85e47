import assert from 'node:assert/strict'
import { it } from 'node:test'
import { urlTextOf } from '#src/dashboard/spools.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { Browser, give, send, startDashboard } from '../helpers/dashboard.js'
import { stored } from '../helpers/dashboard-tasks.js'
import { drop, packet, taskName } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

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

it('the page of one reason and name lists its tasks page by page, says why they wait, and acts on them', async () => {
  const spool = spoolDirectory()
  const names = Array.from({ length: 70 }, () =>
    give(drop(spool, taskName(), packet({ task: 'no<b>such', args: '[]' }))),
  )
  const { place, tokenOf } = await startDashboard({
    spool,
    handler:
      "import { Tasks } from 'spoold'\nexport const tasks = new Tasks()\ntasks.task('known', {}, () => {})",
  })
  await until(
    'all are parked',
    async () => (await spoolSnapshotOf(spool)).tasks.parked['unknown-name'] === 70,
  )
  const browser = new Browser(place)
  await browser.logIn(tokenOf('operator'))
  const get = async (path: string) => {
    const { status, text } = await browser.get(path.replaceAll('&amp;', '&'))
    assert.equal(status, 200, text)
    return text
  }
  const refsIn = (page: string) =>
    [...page.matchAll(/name="ref"[^>]* value="([^"]+)"/g)].map(([, ref]) => ref ?? '')
  const all = await get('/spools/spool/parked')
  const [, path = ''] = /<a href="([^"]+)">70<\/a>/.exec(all) ?? assert.fail(all)
  const first = await get(path)
  assert.match(first, /has parked 70 tasks for this/)
  assert.match(first, /<span class="badge warn">parked<\/span>/)
  assert.match(first, /no handler takes no&lt;b&gt;such/)
  const [, next = ''] = /<a href="([^"]+)">Next<\/a>/.exec(first) ?? assert.fail(first)
  const second = await get(next)
  assert.doesNotMatch(second, />Next</)
  assert.deepEqual([refsIn(first).length, refsIn(second).length], [50, 20])
  assert.equal(new Set([...refsIn(first), ...refsIn(second)]).size, names.length)
  const [, csrf = ''] = /name="csrf" value="([^"]+)"/.exec(first) ?? []
  const [ref = ''] = refsIn(first)
  assert.equal((await browser.post(`/spools/spool/tasks/${ref}/hold`, { csrf, next: path })).status, 303)
  await until('it is held, and not parked', async () => /has parked 69 tasks/.test(await get(path)))
  assert.match(await get('/spools/spool/parked?reason=slot&name=other'), /No such task is parked now/)
  assert.match(await get('/spools/spool/parked?reason=%3Cb%3E'), /Parked: &lt;b&gt;/)
})
