import assert from 'node:assert/strict'
import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { Sessions } from '#src/doors/dashboard/access/sessions.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { startDaemon } from '../helpers/daemon.js'
import { Browser, csrfIn, dropLater, type Place, runs, send, startDashboard } from '../helpers/dashboard.js'
import { leftIn } from '../helpers/files.js'
import { identityOf } from '../helpers/proc.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HANDLER = 'export default () => -2'

describe('the process of the dashboard', () => {
  it('runs as the user of the spools', { skip: skipUnless('root') }, async () => {
    const { daemon, pid } = await startDashboard({ handler: HANDLER })
    const { uids, gids } = identityOf(pid() ?? assert.fail())
    assert.deepEqual(
      [new Set(uids), new Set(gids)].map(ids => [...ids]),
      [[65534], [65534]],
    )
    assert.deepEqual(identityOf(daemon.pid).uids, uids)
  })

  it('is not started if it would run as root', { skip: skipUnless('root') }, async () => {
    const ini = { 'spooler-dashboard': '127.0.0.1:0' }
    const daemon = await startDaemon({ spool: spoolDirectory(), handler: HANDLER, ini })
    await daemon.waitFor(/dashboard stays closed, because it does not run as root: set uid/)
    assert.doesNotMatch(daemon.output, /dashboard enabled/)
  })

  it('is started again each time it is killed, and tasks run meanwhile', async () => {
    const ini = { 'spooler-quiet': true }
    const { daemon, spool, pid } = await startDashboard({ handler: HANDLER, ini })
    for (let i = 0; i < 3; i++) {
      const killed = await until('the dashboard runs', pid)
      process.kill(killed, 'SIGKILL')
      await runs(spool, 20)
      await until('the dashboard runs again', () => pid() !== undefined && pid() !== killed)
    }
    assert.equal(daemon.isRunning, true)
    assert.match(daemon.output, /the dashboard died \(SIGKILL\); it is started again in 1 s/)
    await daemon.waitFor(/started again in 4 s/)
  })
})

describe('a client of the dashboard', () => {
  it('may only read if no tokens are configured', async () => {
    const { place, spool } = await startDashboard({ handler: HANDLER, hasTokens: false })
    dropLater(spool)
    const browser = new Browser(place)
    const page = await browser.get('/')
    assert.equal(page.status, 200)
    assert.equal((await browser.get('/spools/spool/bulk/hold')).status, 403)
    const before = leftIn(spool)
    assert.equal((await browser.post('/spools/spool/pause', { csrf: 'x' })).status, 403)
    assert.equal((await browser.logIn('anything')).status, 403)
    assert.deepEqual(leftIn(spool), before)
  })

  it('with a wrong or revoked token is not let in', async () => {
    const { place, tokenOf, daemon } = await startDashboard({ handler: HANDLER })
    const browser = new Browser(place)
    for (const token of ['', 'x', tokenOf('viewer').slice(1), `${tokenOf('viewer')}x`])
      assert.equal((await browser.logIn(token)).status, 403)
    assert.equal((await browser.get('/')).headers.location, '/login')
    assert.equal((await browser.get(`/?token=${tokenOf('admin')}`)).headers.location, '/login')
    assert.equal((await browser.logIn(tokenOf('viewer'))).headers.location, '/')
    assert.equal((await browser.get('/')).status, 200)
    const file = join(dirname(daemon.iniFile), 'tokens')
    writeFileSync(file, '# nobody\n')
    await until('the revoked token is not let in', async () => (await browser.get('/')).status !== 200)
  })

  it('is not let in if others can read the token file, and the log says why', async () => {
    const { place, tokenOf, daemon } = await startDashboard({ handler: HANDLER })
    const home = dirname(daemon.iniFile)
    chmodSync(join(home, 'tokens'), 0o644)
    const browser = new Browser(place)
    const reply = await browser.logIn(tokenOf('admin'))
    assert.equal(reply.status, 403)
    assert.ok(!reply.text.includes('chmod') && !reply.text.includes(home), reply.text)
    await daemon.waitFor(/\[spooler dashboard\] no token is accepted: .*run chmod 600/)
  })

  it('that logs in often ends only the oldest sessions of its own token', async () => {
    const { place, tokenOf } = await startDashboard({ handler: HANDLER })
    const admin = new Browser(place)
    await admin.logIn(tokenOf('admin'))
    const viewers = Array.from({ length: 25 }, () => new Browser(place))
    for (const viewer of viewers) assert.equal((await viewer.logIn(tokenOf('viewer'))).status, 303)
    assert.equal((await admin.get('/')).status, 200)
    assert.equal((await viewers.at(-1)?.get('/'))?.status, 200)
    assert.equal(
      (await viewers.at(0)?.get('/'))?.headers.location,
      '/login',
      'the oldest session of its own token has ended',
    )
    const sessions = new Sessions()
    const id = sessions.begin('admin')
    for (let n = 0; n < 10_000; n++) sessions.begin(`viewer ${n % 7}`)
    assert.equal(sessions.tokenHashOf(id), 'admin')
  })

  it('has a session at each of two dashboards on one host, through tunnels too', async () => {
    const [one, other] = [
      await startDashboard({ handler: HANDLER }),
      await startDashboard({ handler: HANDLER }),
    ]
    /** The cookies that a browser sends to every port of a host. */
    const jar = new Map<string, string>()
    const cookie = () => Array.from(jar, pair => pair.join('=')).join('; ')
    const logIn = async (place: Place, token: string, host: Record<string, string> = {}) => {
      const reply = await send(place, '/login', { form: { token }, headers: { cookie: cookie(), ...host } })
      assert.equal(reply.status, 303)
      const [name = '', value = ''] = String(reply.headers['set-cookie']).split(';')[0]?.split('=') ?? []
      jar.set(name, value)
    }
    const isIn = async (place: Place, host: Record<string, string> = {}) =>
      (await send(place, '/', { headers: { cookie: cookie(), ...host } })).status === 200
    await logIn(one.place, one.tokenOf('viewer'))
    await logIn(other.place, other.tokenOf('viewer'))
    assert.deepEqual([await isIn(one.place), await isIn(other.place)], [true, true])
    const tunnels = ['localhost:8001', 'localhost:8002'].map(host => ({ host, origin: `http://${host}` }))
    for (const tunnel of tunnels) await logIn(one.place, one.tokenOf('viewer'), tunnel)
    for (const tunnel of tunnels) assert.equal(await isIn(one.place, tunnel), true)
    assert.equal(jar.size, 4)
  })

  it('on a unix socket has the role of the socket, which only its owner can open', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'run/admin.sock')
    const { place } = await startDashboard({
      spool,
      handler: HANDLER,
      ini: { 'spooler-dashboard': `${path},role=admin` },
    })
    assert.equal(statSync(path).mode & 0o777, 0o600)
    const name = dropLater(spool)
    const browser = new Browser(place, { 'x-spoold-user': 'eve', 'x-spoold-role': 'viewer' })
    const page = await browser.get('/spools/spool/bulk/remove')
    const act = `/spools/spool/tasks/${urlTextOf(name)}/remove`
    assert.equal((await browser.post(act, { csrf: csrfIn(page.text) })).status, 303)
    await until('the task is gone', () => leftIn(spool).length === 0)
    assert.equal((await send(place, '/', { headers: { host: 'rebound.example' } })).status, 421)
  })

  it('through a proxy is who the proxy says, but only under the configured host name', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'run/proxy.sock')
    const { place } = await startDashboard({
      spool,
      handler: HANDLER,
      ini: { 'spooler-dashboard': `${path},proxy,host=Tasks.Example.com` },
    })
    assert.equal(statSync(path).mode & 0o777, 0o660)
    const as = (headers: Record<string, string>) => send(place, '/spools/spool/bulk/hold', { headers })
    const host = { host: 'tasks.example.com' }
    assert.equal((await as({ ...host })).status, 403)
    assert.equal((await as({ ...host, 'x-spoold-user': 'ann' })).status, 403)
    assert.equal((await as({ ...host, 'x-spoold-user': 'ann', 'x-spoold-role': 'root' })).status, 403)
    assert.equal((await as({ ...host, 'x-spoold-user': 'a nn', 'x-spoold-role': 'operator' })).status, 403)
    const ann = { ...host, 'x-spoold-user': 'ann', 'x-spoold-role': 'operator' }
    const page = await as({ ...ann, 'x-forwarded-proto': 'https' })
    assert.equal(page.status, 200)
    assert.match(String(page.headers['set-cookie']), /; HttpOnly; SameSite=Strict; Secure$/)
    assert.equal((await as({ ...ann, host: 'example.com' })).status, 421)
  })
})

describe('a URL of the dashboard', () => {
  it('reaches only tasks in the spools of the daemon, and redirects to no other site', async () => {
    const { place, tokenOf, spool } = await startDashboard({ handler: HANDLER })
    const browser = new Browser(place)
    await browser.logIn(tokenOf('admin', true))
    dropLater(spool)
    const csrf = csrfIn((await browser.get('/spools/spool/bulk/hold')).text)
    const before = leftIn(spool)
    const refs = [
      ...['..', '.', '', '/', '../app.ini', '/etc/passwd', '.spoold', '.spoold/control', '.spoold/audit'],
      ...[
        '.spoold/dead/../../../app.ini',
        '.spoold/dead',
        '.spoold/records/a.json',
        '7/../../app.ini',
        'a\0b',
      ],
      ...['./x', '//etc/passwd', '7//x', '.hidden', 'x.tmp', `${'7/'.repeat(20)}x`, 'x'.repeat(300)],
    ].flatMap(ref => [urlTextOf(ref), encodeURIComponent(ref)])
    for (const ref of [...refs, '%', '%2e%2e', '%c0%ae', '..%2f..%2f1.ini', 'eA==']) {
      const reply = await browser.post(`/spools/spool/tasks/${ref}/remove`, { csrf })
      assert.ok([400, 404].includes(reply.status), `${ref}: ${reply.status}`)
    }
    for (const id of ['..', '.', encodeURIComponent(spool), 'spool~2', 'SPOOL', '__proto__', 'constructor'])
      assert.equal((await browser.post(`/spools/${id}/pause`, { csrf })).status, 404, id)
    assert.deepEqual(leftIn(spool), before)
    const next = async (to: string) => {
      const form = { csrf, count: '0', next: to, state: 'held' }
      return (await browser.post('/spools/spool/bulk/release', form)).headers.location
    }
    for (const to of [
      '//evil.example',
      'http://evil.example',
      '/\\evil.example',
      'javascript:1',
      '/a\r\nb: c',
      '/é',
    ])
      assert.equal(await next(to), '/')
    assert.equal(await next('/spools/spool?a=b'), '/spools/spool?a=b')
  })
})
