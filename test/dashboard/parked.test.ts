import assert from 'node:assert/strict'
import { it } from 'node:test'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import type { Daemon } from '../helpers/daemon.js'
import { Browser, csrfIn, give, send, startDashboard } from '../helpers/dashboard.js'
import { stored } from '../helpers/dashboard-tasks.js'
import { drop, packet, taskName } from '../helpers/files.js'
import { stateOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Pauses the tasks that have a pair. Once this returns, the daemon starts none of them. */
async function pausePair(daemon: Daemon, spool: string, pair: string): Promise<void> {
  assert.equal((await spoold(['pause', spool, '--key', pair])).code, 0)
  await daemon.waitFor(`] paused: tasks with ${pair}`) // the daemon obeys up to a second after a snapshot shows the pause
}

it('the page of parked tasks names each task with its reason', async () => {
  const { daemon, place, spool } = await startDashboard({
    hasTokens: false,
    handler:
      "import { Tasks } from 'spoold'\nexport const tasks = new Tasks()\ntasks.task('known', {}, () => {})",
  })
  await pausePair(daemon, spool, 'task=known')
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

it('a parked task is shown as parked on all pages, with actions; who may not read payloads sees no pausing value', async () => {
  const { daemon, place, spool, tokenOf } = await startDashboard({ handler: 'export default () => -2' })
  await pausePair(daemon, spool, 'customer=zq-31')
  const [first, second] = [await stored(spool, 'customer=zq-31'), await stored(spool, 'customer=zq-31')]
  const later = await stored(spool, '--at', '+2h', 'customer=zq-31')
  await until('both tasks are parked', async () => (await spoolSnapshotOf(spool)).tasks.parked.paused === 2)
  const ref = urlTextOf(first)
  const as = async (who: Parameters<typeof tokenOf>) => {
    const browser = new Browser(place)
    await browser.logIn(tokenOf(...who))
    return browser
  }
  const admin = await as(['admin', true])
  const viewer = await as(['viewer'])
  const states = (text: string) =>
    [...(text.split('<main')[1] ?? '').matchAll(/<span class="badge[^"]*">(\w+)<\/span>/g)].map(
      ([, state]) => state,
    )
  for (const [path, expected] of [
    [`tasks/${ref}`, ['parked']],
    ['find?state=parked', ['parked', 'parked']],
    ['find?state=due', []],
    ['find?name=*', ['parked', 'parked', 'waiting']],
  ] as const) {
    const { text } = await admin.get(`/spools/spool/${path}`)
    assert.deepEqual(states(text).sort(), expected, path)
    if (path !== 'find?state=due') assert.match(text, /paused: tasks with customer=zq-31/, path)
    const seen = (await viewer.get(`/spools/spool/${path}`)).text
    assert.deepEqual(states(seen).sort(), expected, path)
    assert.doesNotMatch(seen, /zq-31/, path)
  }
  for (const path of ['/', '/spools/spool', '/spools/spool/parked', '/spools/spool/parked?reason=paused']) {
    const [whole, seen] = [(await admin.get(path)).text, (await viewer.get(path)).text]
    if (!path.includes('reason')) assert.match(whole, /tasks with customer=zq-31/, path)
    assert.doesNotMatch(seen, /zq-31/, path)
    if (!path.includes('reason')) assert.match(seen, /tasks with customer=\[hidden\]/, path)
  }
  const operator = await as(['operator'])
  const form = { csrf: csrfIn((await operator.get('/spools/spool')).text), key: 'customer=other' }
  assert.equal((await operator.post('/spools/spool/pause', form)).status, 403)
  const page = (await admin.get(`/spools/spool/tasks/${ref}`)).text
  const [, csrf = ''] = /name="csrf" value="([^"]+)"/.exec(page) ?? []
  await admin.post(`/spools/spool/tasks/${ref}/hold`, { csrf })
  assert.equal(await stateOf(spool, first), 'held')
  assert.match((await admin.get('/spools/spool/bulk/hold?state=parked')).text, /Hold: 1 task</)
  assert.match((await admin.get('/spools/spool/bulk/hold?state=due')).text, /Hold: 0 tasks</)
  await admin.post('/spools/spool/bulk/hold', { csrf, state: 'parked', count: '1' })
  assert.deepEqual(await Promise.all([second, later].map(name => stateOf(spool, name))), ['held', 'waiting'])
})

it('the page of one reason and one name lists its parked tasks page by page, says why, and acts on them', async () => {
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
    'all tasks are parked',
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
  await until('the held task is no longer counted as parked', async () =>
    /has parked 69 tasks/.test(await get(path)),
  )
  assert.match(await get('/spools/spool/parked?reason=slot&name=other'), /No such task is parked now/)
  assert.match(await get('/spools/spool/parked?reason=%3Cb%3E'), /Parked: &lt;b&gt;/)
})
