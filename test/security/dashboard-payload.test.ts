import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { ACTIONS } from '#src/admin/operate/actions.js'
import { ROLES, type Role } from '#src/base/task/roles.js'
import { PAGES } from '#src/doors/dashboard/pages/index.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { spoold } from '../helpers/cli.js'
import { Browser, csrfIn, give, startDashboard, type TestDashboard } from '../helpers/dashboard.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'

const SECRET = 's3cr3t-payload'
const SPACED = 's3cr3t with spaces'
const COMMAND = `/bin/true --token-of=s3cr3t-command`
const EXEC = '/bin/true --password=s3cr3t-exec'
const FAILS = `
export default env => {
  if (!env.fails) return -2
  const { password } = JSON.parse(env.kwargs)
  throw new Error('password=' + env.password + ' given ' + password + ' to "' + env.customer + '"')
}`
/** Values that nobody may see if spooler-hide names their keys, and otherwise nobody without the right to payloads. */
const HIDDEN = [SECRET, SPACED, 's3cr3t-exec']
const PAYLOAD = [...HIDDEN, 's3cr3t-command', 's3cr3t-pause', 's3cr3t-open']

/** Returns the paths of all pages, for each of these tasks. */
function everyPage(refs: readonly string[]): string[] {
  return PAGES.flatMap(({ path }) =>
    path.includes(':ref') ? refs.map(ref => path.replace(':ref', urlTextOf(ref))) : [path],
  )
    .map(path => path.replace(':spool', 'spool'))
    .flatMap(path =>
      path.includes(':action') ? ['hold', 'remove'].map(name => path.replace(':action', name)) : path,
    )
}

/** Starts a dashboard with tasks that contain a secret: waiting, retrying, held, paused and dead ones. */
async function withSecrets(ini: Record<string, string>): Promise<TestDashboard & { pages: string[] }> {
  const dashboard = await startDashboard({
    handler: FAILS,
    ini: {
      'spooler-retry-delay': '1h',
      'spooler-exec': EXEC,
      'spooler-dashboard-enqueue': 'true',
      cron: `0 0 1 1 * ${COMMAND}`,
      ...ini,
    },
  })
  const { spool, daemon } = dashboard
  const kwargs = JSON.stringify({ password: SECRET })
  const vars = { password: SECRET, customer: SPACED, kwargs, args: '[]', task: 'send', to: 's3cr3t-open' }
  const body = JSON.stringify({ password: SECRET })
  for (const name of ['failed', 'dead']) give(drop(spool, name, packet({ ...vars, fails: 'yes' }, body)))
  for (const name of ['waiting', 'held']) give(drop(spool, name, packet(vars, body), 4_000_000_000))
  await daemon.waitFor(/task failed.* failed, runs again/)
  await daemon.waitFor(/task dead.* failed, runs again/)
  const admin = new Browser(dashboard.place)
  await admin.logIn(dashboard.tokenOf('admin', true))
  const csrf = csrfIn((await admin.get('/spools/spool')).text)
  for (const [name, act] of [
    ['dead', 'bury'],
    ['held', 'hold'],
  ])
    assert.equal(
      (await admin.post(`/spools/spool/tasks/${urlTextOf(name ?? '')}/${act}`, { csrf })).status,
      303,
    )
  for (const key of [`customer=${SPACED}`, 'to=s3cr3t-pause'])
    assert.equal((await spoold(['pause', '--key', key, spool])).code, 0)
  await daemon.waitFor(/paused: tasks with customer=/)
  return { ...dashboard, pages: everyPage(['failed', 'waiting', 'held', '.spoold/dead/dead']) }
}

async function assertHides(
  browser: Browser,
  pages: readonly string[],
  values: readonly string[],
): Promise<string> {
  let all = ''
  for (const path of pages) {
    const { text, status } = await browser.get(path)
    assert.notEqual(status, 503, path)
    for (const value of values) {
      const at = text.indexOf(value)
      assert.equal(at, -1, `${path}: ${text.slice(Math.max(0, at - 200), at + 60)}`)
    }
    all += text
  }
  return all
}

/** Asks for every action that keeps the tasks. @returns the texts of all replies */
async function actEach(
  { place, tokenOf }: TestDashboard,
  role: Role,
  mayReadPayload: boolean,
): Promise<string> {
  const browser = new Browser(place)
  await browser.logIn(tokenOf(role, mayReadPayload))
  const csrf = csrfIn((await browser.get('/spools/spool')).text)
  let said = ''
  for (const [name, { on }] of Object.entries(ACTIONS)) {
    const fields = {
      csrf,
      until: '+1h',
      to: '+0',
      vars: '{"a":"b"}',
      schedule: 'none',
      next: '/spools/spool/audit',
    }
    const places = on === 'task' ? ['waiting', 'held'].map(ref => `tasks/${urlTextOf(ref)}/`) : ['']
    if (['remove', 'cancel', 'edit', 'enqueue'].includes(name)) continue
    for (const at of places) {
      const reply = await browser.post(`/spools/spool/${at}${name}`, fields)
      said += reply.text + (await browser.get('/spools/spool')).text
    }
  }
  return said
}

describe('the payload of tasks', () => {
  let at: Awaited<ReturnType<typeof withSecrets>>
  const started = withSecrets({})
  before(async () => {
    at = await started
  })

  for (const role of ROLES)
    it(`is on no page for a ${role} without the right to payloads, and on some pages with it`, async () => {
      const [blind, sighted] = [new Browser(at.place), new Browser(at.place)]
      await blind.logIn(at.tokenOf(role))
      await sighted.logIn(at.tokenOf(role, true))
      await assertHides(blind, at.pages, PAYLOAD)
      let shown = 0
      for (const path of at.pages) shown += Number((await sighted.get(path)).text.includes(SECRET))
      assert.ok(shown >= 3, `${shown} pages`)
    })

  it('is in no reply to an action of an operator without the right to payloads', async () => {
    const said = await actEach(at, 'operator', false)
    assert.match(said, /paused: tasks with customer=\[hidden\]; tasks with to=\[hidden\]; all tasks/)
    for (const value of PAYLOAD) assert.ok(!said.includes(value), value)
    assert.match(await actEach(at, 'operator', true), new RegExp(`tasks with customer=&quot;${SPACED}&quot;`))
  })

  it('cannot be guessed by a pause, a resume or a filter without the right to payloads', async () => {
    const operator = new Browser(at.place)
    await operator.logIn(at.tokenOf('operator'))
    const page = (await operator.get('/spools/spool')).text
    assert.doesNotMatch(page, /name="key"/)
    const csrf = csrfIn(page)
    for (const act of ['pause', 'resume'])
      for (const key of ['to=s3cr3t-pause', 'to=other', 'nonsense']) {
        const { status, text } = await operator.post(`/spools/spool/${act}`, { csrf, key })
        assert.equal(status, 403, `${act} ${key}`)
        assert.match(text, /you may not read the payload of tasks/)
      }
    assert.equal((await operator.post('/spools/spool/resume', { csrf })).status, 303)
    const named = { args: '[]', kwargs: '{}', task: 'report' }
    for (const [name, vars] of Object.entries({ named, plain: { task: 's3cr3t-plain' } }))
      give(drop(at.spool, name, packet(vars), 4_000_000_000))
    for (const [task, count] of Object.entries({ report: '1', 's3cr3t-plain': '0' })) {
      const { text } = await operator.get(`/spools/spool/bulk/hold?task=${task}`)
      assert.equal(/name="count" value="([0-9]+)"/.exec(text)?.[1] ?? '0', count, task)
    }
  })
})

describe('a value that spooler-hide hides', () => {
  let at: Awaited<ReturnType<typeof withSecrets>>
  const started = withSecrets({ 'spooler-hide': 'password,customer' })
  before(async () => {
    at = await started
  })

  it('is on no page, in no reply to an action, and in no line of the log', async () => {
    const admin = new Browser(at.place)
    await admin.logIn(at.tokenOf('admin', true))
    const text = await assertHides(admin, at.pages, HIDDEN)
    assert.match(text, /password=\[hidden\] given \[hidden\] to &quot;\[hidden\]&quot;/)
    const said = await actEach(at, 'operator', true)
    assert.match(said, /paused: tasks with customer=\[hidden\]; tasks with to=s3cr3t-pause/)
    for (const value of HIDDEN) {
      assert.ok(!said.includes(value), value)
      assert.ok(!at.daemon.output.includes(value), value)
    }
  })

  it('matches no filter, and cannot be the key of a pause', async () => {
    const admin = new Browser(at.place)
    await admin.logIn(at.tokenOf('admin', true))
    const found = async (query: Record<string, string>) => {
      const { text } = await admin.get(`/spools/spool/bulk/hold?${new URLSearchParams(query)}`)
      return /name="count" value="([0-9]+)"/.exec(text)?.[1] ?? '0'
    }
    assert.equal(await found({ key: `password=${SECRET}` }), '0')
    assert.equal(await found({ grep: SECRET }), '0')
    assert.notEqual(await found({ key: 'password=[hidden]' }), '0')
    const csrf = csrfIn((await admin.get('/spools/spool')).text)
    const inside = `kwargs=${JSON.stringify({ password: SECRET })}`
    for (const key of [
      `customer=${SPACED}`,
      'Customer=guess',
      'customer=[hidden]',
      inside,
      `to=password=${SECRET}`,
    ]) {
      const { status, text } = await admin.post('/spools/spool/pause', { csrf, key })
      assert.equal(status, 403, key)
      assert.match(text, /the value of (customer|kwargs|to) is hidden/i)
    }
    assert.equal((await admin.post('/spools/spool/pause', { csrf, key: 'to=other' })).status, 303)
    await until('the page shows the pause', async () =>
      (await admin.get('/spools/spool')).text.includes('to=other'),
    )
  })
})
