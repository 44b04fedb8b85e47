import assert from 'node:assert/strict'
import { basename } from 'node:path'
import { before, describe, it } from 'node:test'
import { PAGES } from '#src/doors/dashboard/pages/index.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { enqueue } from '#src/engines/client/spool.js'
import { urlOf, violationsOn, windowOf } from '../helpers/browser.js'
import { Browser, startDashboard, type TestDashboard } from '../helpers/dashboard.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'

const PASSWORD = 'nobody-may-read-this'
const SECRET = 'the-payload-of-a-task'
const HIDDEN = 'what-the-daemon-hides'
const HANDLER = `export default async (env, task) => {
  if (env.do === 'fail') throw new Error('boom')
  if (env.do === 'run') await new Promise((_, no) => task.signal.addEventListener('abort', () => no(new Error('told'))))
  return task.SPOOL_OK
}`
const LATER = () => new Date(Date.now() + 7_200_000)

describe('the dashboard of a spool on Redis', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(async () => {
    await redis.ready()
    await redis.client.acl('SETUSER', 'bob', 'on', `>${PASSWORD}`, '~*', '&*', '+@all')
  })

  const addressOf = (name: string) => `redis://bob:${PASSWORD}@127.0.0.1:${redis.port}/0/${name}`
  async function starting(name: string, hidden = '', handler = HANDLER): Promise<TestDashboard> {
    const ini = {
      spooler: addressOf(name),
      'spooler-processes': 2,
      ...(hidden === '' ? {} : { 'spooler-hide': hidden }),
      'spooler-dashboard-enqueue': true,
    }
    return startDashboard({ handler, ini })
  }
  const logIn = async (at: TestDashboard, role: 'viewer' | 'operator' | 'admin', payload = false) => {
    const browser = new Browser(at.place)
    assert.equal((await browser.logIn(at.tokenOf(role, payload))).status, 303)
    return browser
  }
  /** Posts a form. @returns the status, and the text of the page to which it leads */
  async function act(
    browser: Browser,
    from: string,
    to: string,
    form: Readonly<Record<string, string>> = {},
  ) {
    const [, csrf = ''] = /name="csrf" value="([^"]+)"/.exec((await browser.get(from)).text) ?? []
    const { status, text } = await browser.post(to, { ...form, csrf, next: from })
    return { status, text: status === 303 ? (await browser.get(from)).text : text }
  }
  const auditOf = async (name: string) =>
    (await redis.client.lrange(`bull:${name}:spoold:audit`, 0, -1)).map(
      line => JSON.parse(line) as Record<string, unknown>,
    )

  it('lists tasks by state, shows payload only to those who may read it, and never the login of Redis', async () => {
    const spooler = addressOf('mail')
    const at = await starting('mail', 'token')
    const ref = async (vars: Readonly<Record<string, string>>, options = {}) =>
      basename((await enqueue(vars, { spooler, ...options })).path)
    const later = await ref({ key: SECRET, token: HIDDEN }, { at: LATER(), body: `${SECRET} body` })
    const failed = await ref({ do: 'fail', key: SECRET })
    const runs = await ref({ do: 'run', key: SECRET })
    const [blind, reader, operator] = [
      await logIn(at, 'viewer'),
      await logIn(at, 'viewer', true),
      await logIn(at, 'operator', true),
    ]
    const has = async (page: string, id: string) =>
      (await operator.get(`/spools/mail/${page}`)).text.includes(urlTextOf(id))
    await until('the failed task is retrying', () => has('retrying', failed))
    await until('the other task runs', () => has('running', runs))
    assert.ok(await has('waiting?show=later', later))
    assert.ok(!(await has('waiting', later)))
    const page = `/spools/mail/tasks/${urlTextOf(later)}`
    assert.match((await reader.get(page)).text, new RegExp(SECRET))
    assert.equal(
      (await reader.get(`${page}/body`)).text,
      '[hidden]',
      'the whole body is hidden, because its keys are unknown',
    )
    assert.equal((await blind.get(`${page}/body`)).status, 403)
    const paths = PAGES.map(({ path }) =>
      path.replace(':spool', 'mail').replace(':ref', urlTextOf(later)).replace(':action', 'hold'),
    )
    for (const path of paths)
      for (const [browser, mayRead] of [
        [blind, false],
        [reader, true],
        [operator, true],
      ] as const) {
        const { status, text } = await browser.get(path)
        assert.ok([200, 403].includes(status), `${path}: ${status} ${text}`)
        assert.doesNotMatch(text, new RegExp(`${PASSWORD}|${HIDDEN}|bob:`), path)
        if (!mayRead) assert.doesNotMatch(text, new RegExp(SECRET), path)
      }
    const found = (await reader.get('/spools/mail/find?state=waiting')).text
    assert.ok(found.includes(urlTextOf(later)))
    assert.match(found, /Reads the jobs from Redis, in the order in which they start/)
    assert.doesNotMatch(found, /order of the directory/)
    assert.equal((await blind.get(`/spools/mail/find?grep=${SECRET}`)).status, 403)

    assert.equal((await act(blind, '/spools/mail', `${page}/hold`)).status, 403)
    assert.deepEqual(await auditOf('mail'), [])
    assert.match((await act(operator, page, `${page}/hold`)).text, /held/)
    assert.ok(await has('held', later))
    const [result, announced] = await auditOf('mail')
    assert.deepEqual(
      [announced?.action, announced?.task, announced?.who, announced?.result],
      ['hold', later, 'operator-with-payload', undefined],
    )
    assert.equal(result?.result, 'held')
    const running = `/spools/mail/tasks/${urlTextOf(runs)}`
    assert.match((await act(operator, running, `${running}/cancel`)).status.toString(), /303|404/)
    assert.ok(await has('dead', runs))
    assert.ok(await has('dead?reason=cancelled', runs))
    at.daemon.child.kill('SIGTERM')
    await at.daemon.code()
  })

  it('acts on all tasks that a filter selects, after a preview, and on chosen tasks', async () => {
    const spooler = addressOf('bulk')
    const at = await starting('bulk')
    const refs: string[] = []
    for (let i = 0; i < 60; i++)
      refs.push(basename((await enqueue({ n: String(i) }, { spooler, at: LATER(), body: SECRET })).path))
    const admin = await logIn(at, 'admin', true)
    const preview = (await admin.get('/spools/bulk/bulk/hold?state=waiting')).text
    assert.match(preview, /Hold: 60 tasks/)
    const held = await act(admin, '/spools/bulk/bulk/hold?state=waiting', '/spools/bulk/bulk/hold', {
      state: 'waiting',
      count: '60',
    })
    assert.match(held.text, /60 held/)
    const [, announced] = await auditOf('bulk')
    assert.deepEqual([announced?.count, announced?.filter], [60, '{"state":"waiting"}'])
    const first = (await admin.get('/spools/bulk/held')).text
    assert.match(first, /from=50/)
    assert.equal((await admin.get(`/spools/bulk/tasks/${urlTextOf(refs[0] ?? '')}/body`)).text, SECRET)
    const chosen = refs.slice(0, 2).map(urlTextOf).join(' ')
    const released = await act(admin, '/spools/bulk/held', '/spools/bulk/bulk/release', {
      ref: chosen,
      count: '2',
    })
    assert.match(released.text, /2 released/)
    const edited = `/spools/bulk/tasks/${urlTextOf(refs[5] ?? '')}`
    assert.equal((await act(admin, edited, `${edited}/edit`, { vars: '{"n":"new"}' })).status, 303)
    const removed = await act(admin, '/spools/bulk/held', '/spools/bulk/bulk/remove', {
      state: 'held',
      count: '57',
      typed: '57',
    })
    assert.match(removed.text, /57 removed/)
    const stored = await act(admin, '/spools/bulk', '/spools/bulk/enqueue', { vars: '{"a":"b"}', at: '+1h' })
    assert.match(stored.text, /stored as redis:\/\/127/)
    assert.match((await act(admin, '/spools/bulk', '/spools/bulk/pause')).text, /paused/)
    assert.match((await act(admin, '/spools/bulk', '/spools/bulk/resume')).text, /resumed/)
    at.daemon.child.kill('SIGTERM')
    await at.daemon.code()
  })

  it('shows parked tasks with the reason, and acts on one, on chosen ones and on all', async () => {
    const spooler = addressOf('parked')
    const handler =
      "import { Tasks } from 'spoold'\nexport const tasks = new Tasks()\ntasks.task('known', {}, () => {})"
    const at = await starting('parked', '', handler)
    const refs: string[] = []
    for (let n = 0; n < 5; n++)
      refs.push(basename((await enqueue({ task: 'no-such', args: `["${SECRET}", ${n}]` }, { spooler })).path))
    const [first = '', second = '', third = ''] = refs
    const admin = await logIn(at, 'admin', true)
    const blind = await logIn(at, 'viewer')
    const shown = async (page: string) => {
      const { text } = await admin.get(`/spools/parked/${page}`)
      return refs.filter(ref => text.includes(`/tasks/${urlTextOf(ref)}"`))
    }
    await until('all tasks are parked', async () => (await shown('parked')).length === 5)
    const seen = (await blind.get('/spools/parked/parked')).text
    assert.match(seen, /no handler takes no-such/)
    assert.doesNotMatch(seen, new RegExp(SECRET))
    assert.deepEqual(await shown('find?state=parked'), await shown('parked'))
    const pageOf = (ref: string) => `/spools/parked/tasks/${urlTextOf(ref)}`
    assert.match((await admin.get(pageOf(first))).text, /<span class="badge warn">parked<\/span>/)
    assert.match((await act(admin, pageOf(first), `${pageOf(first)}/hold`)).text, />held</)
    assert.deepEqual([await shown('held'), (await shown('parked')).length], [[first], 4])
    await act(admin, pageOf(first), `${pageOf(first)}/release`)
    await until('the released task is parked again', async () => (await shown('parked')).length === 5)
    assert.equal((await act(admin, '/spools/parked/parked', `${pageOf(second)}/bury`)).status, 303)
    assert.deepEqual(await shown('dead'), [second])
    await until(
      'the other tasks are parked, though they are offered again at this moment',
      async () => (await shown('parked')).length === 4,
    )
    const chosen = { ref: urlTextOf(third), count: '1', typed: '1' }
    const removed = await act(admin, '/spools/parked/parked', '/spools/parked/bulk/remove', chosen)
    assert.match(removed.text, /1 removed/)
    const all = await act(admin, '/spools/parked/bulk/hold?state=parked', '/spools/parked/bulk/hold', {
      state: 'parked',
      count: '3',
    })
    assert.match(all.text, /3 held/)
    assert.deepEqual([(await shown('held')).length, await shown('parked')], [3, []])
    at.daemon.child.kill('SIGTERM')
    await at.daemon.code()
  })

  it('reads only the tasks of one page when a million tasks wait', async () => {
    const spooler = addressOf('many')
    const at = await starting('many')
    const admin = await logIn(at, 'admin', true)
    assert.equal((await act(admin, '/spools/many', '/spools/many/pause')).status, 303)
    for (let i = 0; i < 20; i++) await enqueue({ n: String(i) }, { spooler, priority: 7 })
    const fill = `for i = 1, 100000 do redis.call('ZADD', KEYS[1], 4294967296 + ARGV[1] + i, 'x' .. (ARGV[1] + i)) end`
    for (let part = 0; part < 10; part++)
      await redis.client.eval(fill, 1, 'bull:many:prioritized', part * 100_000)
    const before = await callsOf('hmget')
    const { status, text } = await admin.get('/spools/many/waiting?from=1000000')
    assert.equal(status, 200)
    assert.equal(new Set(text.match(/\/spools\/many\/tasks\/[\w-]+/g)).size, 20)
    assert.ok((await callsOf('hmget')) - before < 2000, 'only about one page of tasks is read')
    at.daemon.child.kill('SIGTERM')
    await at.daemon.code()
  })
  const callsOf = async (command: string) =>
    Number(
      new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(await redis.client.info('commandstats'))?.[1] ?? 0,
    )

  it('has pages in which axe finds no violations, and buttons that work', {
    skip: skipUnless('chromium'),
  }, async () => {
    const spooler = addressOf('seen')
    const at = await starting('seen')
    const { path } = await enqueue({ n: 'one' }, { spooler, at: LATER() })
    const { page, complaints } = await windowOf(at, at.tokenOf('operator', true))
    for (const name of ['', '/waiting', '/running', '/retrying', '/held', '/parked', '/dead', '/audit']) {
      await page.goto(urlOf(at, `/spools/seen${name}`))
      assert.deepEqual(await violationsOn(page), [], name)
    }
    await page.goto(urlOf(at, '/spools/seen/waiting?show=later'))
    await page.locator(`input[name=ref][value="${urlTextOf(basename(path))}"]`).check()
    await page.getByRole('button', { name: 'Hold…', exact: true }).click()
    await page.getByRole('button', { name: 'Hold: 1 task', exact: true }).click()
    await page.getByText('1 held').waitFor()
    assert.deepEqual(complaints, [])
    await page.context().close()
    at.daemon.child.kill('SIGTERM')
    await at.daemon.code()
  })
})
