import assert from 'node:assert/strict'
import { chmodSync, existsSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { PAGES } from '#src/dashboard/pages/index.js'
import { urlTextOf } from '#src/dashboard/spools.js'
import { ROLES } from '#src/task/roles.js'
import { startDaemon } from '../helpers/daemon.js'
import { Browser, give, type Place, send, startDashboard } from '../helpers/dashboard.js'
import { drop, leftIn, packet, taskName } from '../helpers/files.js'
import { identityOf } from '../helpers/proc.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { cpuMsOf, openFiles, peakMemoryMb } from '../helpers/usage.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HANDLER = 'export default () => -2'
/** Slow and greedy clients at a time. */
const CROWD = isLong ? 2000 : 1000
const TASKS_BESIDE = 500
/** Requests that never end. */
const SLOW = ['', 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n']
/** They come back when they are sent away. */
const ARRIVALS = isLong ? 100_000 : 2 * CROWD

/** A task that is due in a hundred years, so that it stays. */
function dropLater(spool: string, name = taskName()): string {
  give(drop(spool, name, packet({ to: 'joe' }), 4_000_000_000))
  return name
}

async function runs(spool: string, count: number): Promise<void> {
  const before = leftIn(spool).length
  for (let i = 0; i < count; i++) give(drop(spool))
  await until('the tasks have run', () => leftIn(spool).length <= before)
}

/** What a page has in its form. */
function csrfIn(page: string): string {
  return /name="csrf" value="([^"]+)"/.exec(page)?.[1] ?? assert.fail(page)
}

describe('the process of the dashboard', () => {
  it('is the user of the spools', { skip: skipUnless('root') }, async () => {
    const { daemon, pid } = await startDashboard({ handler: HANDLER })
    const { uids, gids } = identityOf(pid() ?? assert.fail())
    assert.deepEqual(
      [new Set(uids), new Set(gids)].map(ids => [...ids]),
      [[65534], [65534]],
    )
    assert.deepEqual(identityOf(daemon.pid).uids, uids)
  })

  it('is not there where it would be root', { skip: skipUnless('root') }, async () => {
    const ini = { 'spooler-dashboard': '127.0.0.1:0' }
    const daemon = await startDaemon({ spool: spoolDirectory(), handler: HANDLER, ini })
    await daemon.waitFor(/dashboard is left closed, because it does not run as root: set uid/)
    assert.doesNotMatch(daemon.output, /dashboard enabled/)
  })

  it('may be killed in a loop: tasks run, and it comes back', async () => {
    const ini = { 'spooler-quiet': true }
    const { daemon, spool, pid } = await startDashboard({ handler: HANDLER, ini })
    for (let i = 0; i < 3; i++) {
      const killed = await until('it is there', pid)
      process.kill(killed, 'SIGKILL')
      await runs(spool, 20)
      await until('another one is there', () => pid() !== undefined && pid() !== killed)
    }
    assert.equal(daemon.isRunning, true)
    assert.match(daemon.output, /the dashboard died \(SIGKILL\); it is started again in 1 s/)
    await daemon.waitFor(/started again in 4 s/)
  })
})

describe('who comes to the dashboard', () => {
  it('without tokens may read names and numbers, and nothing else', async () => {
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

  it('with a wrong token, or one that was taken back, is not let in', async () => {
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
    await until('it is not let in', async () => (await browser.get('/')).status !== 200)
  })

  it('with the token of a file that others can read is not let in, and the log says why', async () => {
    const { place, tokenOf, daemon } = await startDashboard({ handler: HANDLER })
    chmodSync(join(dirname(daemon.iniFile), 'tokens'), 0o644)
    const browser = new Browser(place)
    const reply = await browser.logIn(tokenOf('admin'))
    assert.equal(reply.status, 403)
    assert.doesNotMatch(reply.text, /chmod|tokens/)
    await daemon.waitFor(/\[spooler dashboard\] nobody is let in by a token: .*run chmod 600/)
  })

  it('on a unix socket has its role, and nobody else can open it', async () => {
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
    await until('it is gone', () => leftIn(spool).length === 0)
    assert.equal((await send(place, '/', { headers: { host: 'rebound.example' } })).status, 421)
  })

  it('through a proxy is who the proxy says, with no other name of the server', async () => {
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

const SECRET = 's3cr3t-payload'
const FAILS = `export default env => { if (env.fails) throw new Error('password=' + env.password); return -2 }`

/** Every page, about every task there is. */
function everyPage(refs: readonly string[]): string[] {
  return PAGES.flatMap(({ path }) =>
    path.includes(':ref') ? refs.map(ref => path.replace(':ref', urlTextOf(ref))) : [path],
  )
    .map(path => path.replace(':spool', 'spool'))
    .flatMap(path =>
      path.includes(':action') ? ['hold', 'remove'].map(name => path.replace(':action', name)) : path,
    )
}

/** A dashboard over tasks with a secret: waiting, retrying and dead ones. */
async function withSecrets(ini: Record<string, string>) {
  const dashboard = await startDashboard({ handler: FAILS, ini: { 'spooler-retry-delay': '1h', ...ini } })
  const { spool } = dashboard
  const vars = { password: SECRET, kwargs: JSON.stringify({ password: SECRET }), args: '[]', task: 'send' }
  give(drop(spool, 'failed', packet({ ...vars, fails: 'yes' }, JSON.stringify({ password: SECRET }))))
  for (const name of ['waiting', 'held'])
    give(drop(spool, name, packet(vars, JSON.stringify({ password: SECRET })), 4_000_000_000))
  await dashboard.daemon.waitFor(/password=/)
  return { ...dashboard, pages: everyPage(['failed', 'waiting', 'held']) }
}

describe('the payload of tasks', () => {
  for (const role of ROLES)
    it(`is on no page for a ${role} without the right to it, and on some with it`, async () => {
      const { place, tokenOf, pages } = await withSecrets({})
      const [blind, sighted] = [new Browser(place), new Browser(place)]
      await blind.logIn(tokenOf(role))
      await sighted.logIn(tokenOf(role, true))
      let shown = 0
      for (const path of pages) {
        const [without, whole] = [await blind.get(path), await sighted.get(path)]
        assert.ok(!without.text.includes(SECRET), path)
        assert.notEqual(without.status, 503, path)
        shown += Number(whole.text.includes(SECRET))
      }
      assert.ok(shown >= 3, `${shown} pages`)
    })

  it('is on no page where it is hidden, and no filter finds it', async () => {
    const { place, tokenOf, pages } = await withSecrets({ 'spooler-hide': 'password' })
    const browser = new Browser(place)
    await browser.logIn(tokenOf('admin', true))
    for (const path of pages) assert.ok(!(await browser.get(path)).text.includes(SECRET), path)
    const found = async (query: Record<string, string>) => {
      const { text } = await browser.get(`/spools/spool/bulk/hold?${new URLSearchParams(query)}`)
      return /name="count" value="([0-9]+)"/.exec(text)?.[1] ?? '0'
    }
    assert.equal(await found({ key: `password=${SECRET}` }), '0')
    assert.equal(await found({ grep: SECRET }), '0')
    assert.equal(await found({ key: 'password=[hidden]' }), '3')
  })
})

describe('what a URL can mean', () => {
  it('is nothing but the daemon’s spools, and what can be a task there', async () => {
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

/** Opens connections that send these bytes, slowly or never to the end, and come back when they are closed. */
class Crowd {
  #isOver = false
  readonly #sockets = new Set<ReturnType<typeof connect>>()
  came = 0

  constructor(place: Place, texts: readonly string[], count: number) {
    for (let i = 0; i < count; i++) this.#come(place, texts[i % texts.length] ?? '')
  }

  leave(): void {
    this.#isOver = true
    for (const socket of this.#sockets) socket.destroy()
  }

  #come(place: Place, text: string): void {
    if (this.#isOver) return
    this.came++
    const socket = connect(
      'port' in place ? { port: place.port, host: '127.0.0.1' } : { path: place.socketPath },
    )
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.write(text)
    const drip = setInterval(() => socket.write('a'), 500)
    socket.resume()
    socket.once('close', () => {
      clearInterval(drip)
      this.#sockets.delete(socket)
      setTimeout(() => this.#come(place, text), 20).unref()
    })
  }
}

describe('a crowd of clients', () => {
  it('that are slow, or ask for too much, costs no task anything, changes nothing, and keeps nobody out for long', async test => {
    const { daemon, place, spool, pid, tokenOf } = await startDashboard({ handler: HANDLER })
    const process = pid() ?? assert.fail()
    const daemonCpuMs = () =>
      [daemon.pid, ...daemon.children()]
        .filter(each => each !== process)
        .reduce((sum, each) => sum + cpuMsOf(each), 0)
    const costOf = async (tasks: number) => {
      const before = daemonCpuMs()
      await runs(spool, tasks)
      return daemonCpuMs() - before
    }
    const kept = dropLater(spool)
    const removal = (path: string) => {
      const form = 'count=1&typed=1&csrf=x'
      return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${form.length}\r\n\r\n${form}`
    }
    await runs(spool, 100) // what is compiled and loaded once
    const alone = await costOf(TASKS_BESIDE)
    const crowd = new Crowd(
      place,
      [
        ...SLOW,
        ...SLOW,
        `GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ${'x'.repeat(20_000)}`,
        'POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100000000\r\n\r\ntoken=',
        'POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n',
        'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(100),
        removal('/spools/spool/bulk/remove'),
        removal(`/spools/spool/tasks/${urlTextOf(kept)}/remove`),
      ],
      CROWD,
    )
    let mostFiles = 0
    await until('they came', () => {
      mostFiles = Math.max(mostFiles, openFiles(process))
      return crowd.came > ARRIVALS
    })
    const beside = await costOf(TASKS_BESIDE)
    test.diagnostic(
      `${TASKS_BESIDE} tasks beside ${CROWD} clients: ${beside} ms of processor; alone: ${alone} ms`,
    )
    assert.ok(beside < 2 * alone + 200, `${beside} ms of processor, and ${alone} ms alone`)
    assert.deepEqual(leftIn(spool), [kept])
    assert.equal(existsSync(join(spool, '.spoold/audit')), false)
    const browser = new Browser(place)
    await until('somebody honest is let in', async () => {
      const reply = await browser.logIn(tokenOf('viewer')).catch(() => undefined)
      return reply?.status === 303
    })
    assert.ok(mostFiles < 256 + 60, `${mostFiles} descriptors`)
    test.diagnostic(
      `${crowd.came} came; the dashboard has had ${peakMemoryMb(process)} MB, and ${mostFiles} descriptors`,
    )
    assert.ok(peakMemoryMb(process) < 160, `${peakMemoryMb(process)} MB`)
    crowd.leave()
    assert.equal(pid(), process, 'it is the same process')
    assert.doesNotMatch(daemon.output, /dashboard died/)
  })

  it('that send too much are refused, and nothing is kept of it', async () => {
    const { place, tokenOf } = await startDashboard({ handler: HANDLER })
    const large = await send(place, '/login', { form: { token: 'x'.repeat(5 * 1024 * 1024) } }).catch(
      () => undefined,
    )
    assert.ok(large === undefined || large.status === 400, String(large?.status))
    const header = await send(place, '/', { headers: { x: 'x'.repeat(10_000) } }).catch(() => undefined)
    assert.ok(header === undefined || header.status >= 400)
    assert.equal((await new Browser(place).logIn(tokenOf('viewer'))).status, 303)
  })
})
