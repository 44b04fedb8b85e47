import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { actOnTask } from '#src/admin/operate/act.js'
import { ACTIONS, type Action, type ActionName } from '#src/admin/operate/actions.js'
import { makeToken } from '#src/admin/operate/dashboard-tokens.js'
import { isAtLeast, ROLES, type Role } from '#src/base/task/roles.js'
import { cookieNameOf } from '#src/doors/dashboard/access/cookie.js'
import { Sessions } from '#src/doors/dashboard/access/sessions.js'
import { Tokens } from '#src/doors/dashboard/access/tokens.js'
import { DaemonLink } from '#src/doors/dashboard/daemon-link.js'
import { PAGES } from '#src/doors/dashboard/pages/index.js'
import { dashboardApp } from '#src/doors/dashboard/server.js'
import { Spools, urlTextOf } from '#src/doors/dashboard/spools.js'
import { whoseOf } from '#src/doors/dashboard/world.js'
import { parseDashboard } from '#src/doors/net/dashboard-address.js'
import { openTaskStore } from '#src/engines/open-engine.js'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { SpoolView } from '#src/engines/spool/admin/task-view.js'
import { Hide } from '#src/formats/protocol/hide.js'
import { drop, packet } from '../helpers/files.js'
import { daemonSnapshot, spoolSnapshot } from '../helpers/snapshots.js'
import { spoolDirectory } from '../helpers/workspace.js'

const HOST = '127.0.0.1:8717'
const SECRET = 'the-payload-that-nobody-may-see'
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const
const names = Object.keys(ACTIONS) as ActionName[]

interface Who {
  readonly role: Role
  readonly mayReadPayload: boolean
}
const EVERYBODY: readonly Who[] = ROLES.flatMap(role =>
  [false, true].map(mayReadPayload => ({ role, mayReadPayload })),
)

/** What the daemon answers, by verb. */
const ANSWERS: Readonly<Record<string, object>> = {
  parked: { groups: [] },
  next: { tasks: ['due', 'held'] },
  later: { tasks: ['due', 'held'] },
  config: {
    settings: [{ option: 'cron', value: `post ${SECRET}`, from: 'app.ini:7', isCode: true }],
    isCut: false,
    waiting: [],
  },
}

/** Returns a spool with a held, a due and a dead task, and a dashboard on it, which is asked without a socket. */
async function dashboard({ allowsNewWork = true, hidden = [] as readonly string[] } = {}) {
  const spool = spoolDirectory()
  const at = async (name: string, action: 'hold' | 'bury') => {
    const task = new SpoolView(spool).view(name) ?? assert.fail(name)
    assert.equal((await actOnTask(await openTaskStore(spool), task, ACTIONS[action])).kind, 'done')
  }
  for (const name of ['held', 'dead', 'due']) drop(spool, name, packet({ [`key-${SECRET}`]: SECRET }, SECRET))
  await at('held', 'hold')
  await at('dead', 'bury')
  const sessions = new Sessions()
  const made = EVERYBODY.map(who => ({ who, ...makeToken({ ...who, name: nameOf(who) }) }))
  const file = join(dirname(spool), 'tokens')
  writeFileSync(file, made.map(({ line }) => line).join(''), { mode: 0o600 })
  const asked: string[] = []
  const daemon = Object.assign(new DaemonLink([spool], process.pid), {
    snapshot: async () => daemonSnapshot(Date.now(), spoolSnapshot({ directory: spool })),
    ask: async (verb: string) => {
      asked.push(verb)
      return { pid: process.pid, ...ANSWERS[verb] }
    },
  })
  const app = dashboardApp({
    spools: new Spools([spool]),
    daemon,
    tokens: new Tokens(file, assert.fail),
    sessions,
    allowsNewWork,
    hide: new Hide(hidden),
  })
  const sessionOf = (who: Who) => {
    const hash =
      made
        .find(each => each.who === who)
        ?.line.trim()
        .split(' ')[2] ?? assert.fail()
    const id = sessions.begin(hash)
    return { id, csrf: sessions.csrfOf(id, whoseOf({ ...who, name: nameOf(who), hasSession: true })) }
  }
  const ask = (
    path: string,
    method: string,
    headers: Record<string, string>,
    form?: Record<string, string>,
  ) =>
    app.fetch(
      new Request(`http://${HOST}${path}`, {
        method,
        headers,
        ...(form === undefined ? {} : { body: new URLSearchParams(form).toString() }),
      }),
      { incoming: { headers: { host: HOST, ...headers } }, at: parseDashboard(HOST) },
    )
  return { spool, app, asked, sessionOf, ask }
}

const COOKIE = cookieNameOf({ at: parseDashboard(HOST), incoming: { headers: { host: HOST } } })
const nameOf = ({ role, mayReadPayload }: Who) => `${role}${mayReadPayload ? '-payload' : ''}`

/** What a browser sends from a page of the dashboard. */
function sent(id: string, changed: Readonly<Record<string, string>> = {}): Record<string, string> {
  const headers = {
    cookie: `${COOKIE}=${id}`,
    origin: `http://${HOST}`,
    'content-type': 'application/x-www-form-urlencoded',
    ...changed,
  }
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''))
}

/** Returns all that is in the spool, except the audit, probes and locks. */
function stateOf(spool: string): string {
  const paths = readdirSync(spool, { recursive: true }).map(String).sort()
  const isOurs = (path: string) => !/^\.spoold\/(?:audit|probe-|locks)/.test(path)
  return paths
    .filter(isOurs)
    .map(path => {
      const stats = lstatSync(join(spool, path))
      const content = stats.isFile()
        ? createHash('sha1')
            .update(readFileSync(join(spool, path)))
            .digest('hex')
        : ''
      return `${path} ${stats.isFile() ? stats.mtimeMs : ''} ${content}`
    })
    .join('\n')
}

/** A form with which an action does something. */
const FORMS: Readonly<Record<ActionName, { readonly ref: string; readonly form: Record<string, string> }>> = {
  requeue: { ref: '.spoold/dead/dead', form: {} },
  kick: { ref: 'held', form: {} },
  hold: { ref: 'due', form: {} },
  release: { ref: 'held', form: {} },
  bury: { ref: 'due', form: {} },
  cancel: { ref: 'due', form: {} }, // none runs here, so it changes nothing
  remove: { ref: 'due', form: {} },
  edit: { ref: 'held', form: { vars: '{"a":"b"}' } },
  pause: { ref: '', form: {} },
  resume: { ref: '', form: {} }, // nothing is paused
  scale: { ref: '', form: { to: '3' } }, // no daemon runs here
  'run-schedule': { ref: '', form: { schedule: 'tick' } },
  'pause-schedule': { ref: '', form: { schedule: 'tick' } },
  'resume-schedule': { ref: '', form: { schedule: 'tick' } },
  'remove-schedule': { ref: '', form: { schedule: 'tick' } },
  enqueue: { ref: '', form: { vars: '{"a":"b"}' } },
}
const HARMLESS: readonly ActionName[] = [
  'cancel',
  'resume',
  'scale',
  ...names.filter(name => name.endsWith('-schedule')),
]

function pathOf(name: ActionName): string {
  const action: Action = ACTIONS[name]
  const of = action.on === 'task' ? `tasks/${urlTextOf(FORMS[name].ref)}/` : ''
  return `/spools/spool/${of}${name}`
}

const mayDo = ({ role, mayReadPayload }: Who, name: ActionName) =>
  isAtLeast(role, ACTIONS[name].role) && (name !== 'edit' || mayReadPayload)

/** The actions that can be done to all tasks that a form names. */
const inBulk = names
  .filter(name => 'inBulk' in ACTIONS[name] && ACTIONS[name].inBulk)
  .map(name => ({
    name,
    path: `/spools/spool/bulk/${name}`,
    form: { ref: urlTextOf(FORMS[name].ref), count: '1', typed: '1' },
  }))
const one = names.map(name => ({ name, path: pathOf(name), form: FORMS[name].form }))

describe('each action', () => {
  for (const { name, path, form } of [...one, ...inBulk])
    for (const who of EVERYBODY)
      it(`${path} by ${nameOf(who)} is ${mayDo(who, name) ? 'done, and audited' : 'refused'}`, async () => {
        const { spool, sessionOf, ask } = await dashboard()
        const { id, csrf } = sessionOf(who)
        const before = stateOf(spool)
        const reply = await ask(path, 'POST', sent(id), { ...form, csrf })
        const audit = readAudit(spool, 10)
        if (!mayDo(who, name)) {
          assert.equal(reply.status, 403)
          assert.equal(stateOf(spool), before)
          assert.deepEqual(audit, [])
        } else {
          assert.equal(reply.status, 303, await reply.text())
          assert.equal(stateOf(spool) === before, HARMLESS.includes(name))
          const said = audit.map(each => [each.who, each.role, each.action, each.result !== undefined])
          assert.deepEqual(
            said,
            [true, false].map(isOver => [nameOf(who), who.role, name, isOver]),
          )
        }
      })

  // written out by hand: the rows above are made from the table that the dashboard obeys
  for (const [role, refused] of [
    ['operator', ['remove', 'edit', 'enqueue', 'remove-schedule']],
    ['viewer', names],
  ] as const)
    it(`that ${role === 'viewer' ? 'changes anything' : 'cannot be undone, or runs code,'} is refused to the role ${role}`, async () => {
      const { spool, sessionOf, ask } = await dashboard()
      const { id, csrf } = sessionOf(
        EVERYBODY.find(who => who.role === role && who.mayReadPayload) ?? assert.fail(),
      )
      const before = stateOf(spool)
      for (const name of refused)
        assert.equal(
          (await ask(pathOf(name), 'POST', sent(id), { ...FORMS[name].form, csrf })).status,
          403,
          name,
        )
      assert.equal(stateOf(spool), before)
      assert.deepEqual(readAudit(spool, 10), [])
    })

  for (const name of names)
    it(`${name} is refused unless a form of the dashboard itself asks for it`, async () => {
      const { spool, sessionOf, ask } = await dashboard()
      const admin = EVERYBODY.at(-1) ?? assert.fail()
      const { id, csrf } = sessionOf(admin)
      const other = sessionOf(admin)
      const before = stateOf(spool)
      const form = { ...FORMS[name].form, csrf }
      const wrong: Array<readonly [number, Record<string, string>, Record<string, string>]> = [
        [403, sent(id, { origin: '' }), form],
        [403, sent(id, { origin: 'null' }), form],
        [403, sent(id, { origin: 'http://evil.example' }), form],
        [403, sent(id, { origin: `http://${HOST}.evil.example` }), form],
        [403, sent(id, { origin: `http://127.0.0.1:1` }), form],
        [403, sent(id, { origin: `file://${HOST}` }), form],
        [400, sent(id, { 'content-type': 'text/plain' }), form],
        [400, sent(id, { 'content-type': 'multipart/form-data; boundary=x' }), form],
        [403, sent(id), { ...form, csrf: '' }],
        [403, sent(id), { ...form, csrf: other.csrf }],
        [403, sent(id), { ...form, csrf: `${csrf}x` }],
        [401, sent(''.padEnd(43, 'x')), form],
        [401, sent('x'), form],
        [401, sent(id, { cookie: '' }), form],
      ]
      for (const [status, headers, fields] of wrong) {
        const reply = await ask(pathOf(name), 'POST', headers, fields)
        assert.equal(reply.status, status, `${JSON.stringify(headers)} ${JSON.stringify(fields)}`)
      }
      for (const method of METHODS.filter(each => each !== 'POST'))
        assert.notEqual((await ask(pathOf(name), method, sent(id))).status, 303, method)
      assert.equal(stateOf(spool), before)
      assert.deepEqual(readAudit(spool, 10), [])
    })

  it('that brings new tasks is refused even to an admin unless the configuration allows it', async () => {
    const { spool, sessionOf, ask } = await dashboard({ allowsNewWork: false })
    const { id, csrf } = sessionOf(EVERYBODY.at(-1) ?? assert.fail())
    const before = stateOf(spool)
    for (const name of names.filter(each => ACTIONS[each].isNewWork))
      assert.equal((await ask(pathOf(name), 'POST', sent(id), { ...FORMS[name].form, csrf })).status, 403)
    assert.equal(stateOf(spool), before)
  })

  it('is refused with 503 and not done if the audit cannot be written', async () => {
    const { spool, sessionOf, ask } = await dashboard()
    mkdirSync(join(spool, '.spoold/audit'))
    const { id, csrf } = sessionOf(EVERYBODY.at(-1) ?? assert.fail())
    const before = stateOf(spool)
    for (const name of names)
      assert.equal((await ask(pathOf(name), 'POST', sent(id), { ...FORMS[name].form, csrf })).status, 503)
    assert.equal(stateOf(spool), before)
  })
})

describe('each route', () => {
  it('shows no payload without the right, sends security headers, and changes nothing unless a form is posted', async () => {
    const { spool, app, sessionOf, ask } = await dashboard()
    const before = stateOf(spool)
    const paths = [...new Set(app.routes.map(({ path }) => path))].filter(path => !path.includes('*'))
    assert.ok(paths.length > 5)
    const filled = paths.flatMap(path =>
      path.includes(':ref')
        ? ['held', 'due', '.spoold/dead/dead'].map(ref => path.replace(':ref', urlTextOf(ref)))
        : [path],
    )
    const all = filled
      .map(path => path.replace(':spool', 'spool'))
      .flatMap(path => (path.includes(':action') ? names.map(name => path.replace(':action', name)) : [path]))
    for (const who of EVERYBODY) {
      const { id } = sessionOf(who)
      for (const path of all)
        for (const method of METHODS) {
          const reply = await ask(path, method, sent(id))
          const text = await reply.text()
          if (!who.mayReadPayload) assert.ok(!text.includes(SECRET), `${method} ${path} by ${nameOf(who)}`)
          assert.equal(reply.headers.get('x-content-type-options'), 'nosniff')
          assert.match(reply.headers.get('content-security-policy') ?? '', /^default-src 'none'/)
          assert.doesNotMatch(reply.headers.get('content-security-policy') ?? '', /unsafe/)
          assert.equal(reply.headers.get('access-control-allow-origin'), null)
        }
    }
    assert.equal(stateOf(spool), before)
  })

  it('shows hidden values to nobody, and lets no filter find them', async () => {
    const { app, sessionOf, ask } = await dashboard({ hidden: [`KEY-${SECRET}`] })
    const { id } = sessionOf(EVERYBODY.at(-1) ?? assert.fail())
    for (const { path } of app.routes.filter(each => each.path.includes(':ref')))
      for (const ref of ['held', 'due', '.spoold/dead/dead']) {
        const filled = path.replace(':spool', 'spool').replace(':ref', urlTextOf(ref))
        const text = await (await ask(filled, 'GET', sent(id))).text()
        assert.ok(!text.replaceAll(`key-${SECRET}`, '').includes(SECRET), filled)
      }
    const found = async (filter: Record<string, string>) =>
      (await ask(`/spools/spool/bulk/hold?${new URLSearchParams(filter)}`, 'GET', sent(id))).text()
    assert.match(await found({ key: `key-${SECRET}=${SECRET}` }), /Hold: 0 tasks/)
    assert.match(await found({ key: `key-${SECRET}=[hidden]` }), /Hold: 1 task/)
  })

  it('is shown to those who have its right, and to nobody else', async () => {
    const { sessionOf, ask } = await dashboard()
    for (const who of EVERYBODY)
      for (const { path, right } of PAGES.filter(each => !each.path.includes(':action'))) {
        const filled = path.replace(':spool', 'spool').replace(':ref', urlTextOf('due'))
        const may = isAtLeast(who.role, right.role) && (right.payload !== true || who.mayReadPayload)
        const { status } = await ask(filled, 'GET', sent(sessionOf(who).id))
        assert.equal(status, may ? 200 : 403, `${path} by ${nameOf(who)}`)
      }
  })

  it('asks the daemon for its options for admins alone', async () => {
    const { asked, sessionOf, ask } = await dashboard()
    for (const who of EVERYBODY) {
      const before = asked.length
      const { status } = await ask('/configuration', 'GET', sent(sessionOf(who).id))
      assert.deepEqual(
        [status, asked.slice(before)],
        [200, who.role === 'admin' ? ['config'] : []],
        nameOf(who),
      )
    }
  })

  it('asks for a login or is refused without a session', async () => {
    const { app, ask } = await dashboard()
    for (const { path, method } of app.routes.filter(each => !each.path.includes('*')))
      if (path !== '/login' && !path.startsWith('/assets/'))
        assert.ok([303, 401].includes((await ask(path, method, {})).status), `${method} ${path}`)
  })
})

describe('tasks that are acted on in bulk', () => {
  const admin = EVERYBODY.at(-1) ?? assert.fail()
  const bulk = (name: string) => `/spools/spool/bulk/${name}`

  it('are never more than the preview said', async () => {
    const { spool, sessionOf, ask } = await dashboard()
    const { id, csrf } = sessionOf(admin)
    const before = stateOf(spool)
    const form = { csrf, count: '0' }
    assert.equal((await ask(bulk('hold'), 'POST', sent(id), form)).status, 303)
    const told = await (await ask('/', 'GET', sent(id))).text()
    assert.match(told, /nothing was done: there are 1 now, and not 0/)
    assert.equal(stateOf(spool), before)
    assert.equal((await ask(bulk('hold'), 'POST', sent(id), { csrf })).status, 400)
    assert.equal((await ask(bulk('edit'), 'POST', sent(id), form)).status, 404)
    assert.equal((await ask(bulk('pause'), 'POST', sent(id), form)).status, 404)
    await ask(bulk('hold'), 'POST', sent(id), { csrf, count: '1' })
    assert.notEqual(stateOf(spool), before)
    const [{ result, filter, count } = assert.fail()] = readAudit(spool, 1)
    assert.deepEqual([result, filter, count], ['1 held', '{}', 1])
  })

  it('are removed only if their number is typed in', async () => {
    const { spool, sessionOf, ask } = await dashboard()
    const { id, csrf } = sessionOf(admin)
    const before = stateOf(spool)
    for (const typed of ['', '2', 'yes', '33'])
      await ask(bulk('remove'), 'POST', sent(id), { csrf, count: '3', typed })
    assert.equal(stateOf(spool), before)
    await ask(bulk('remove'), 'POST', sent(id), { csrf, count: '3', typed: '3', state: 'dead,held' })
    assert.equal(readAudit(spool, 1)[0]?.result, '2 removed')
    assert.deepEqual(readdirSync(spool), ['.spoold', 'due'])
  })

  it('cannot be selected by their payload without the right to read it', async () => {
    const { spool, sessionOf, ask } = await dashboard()
    const blind = EVERYBODY.find(who => who.role === 'admin' && !who.mayReadPayload) ?? assert.fail()
    const { id, csrf } = sessionOf(blind)
    const before = stateOf(spool)
    for (const filter of [{ key: `a=${SECRET}` }, { match: 'a=*' }, { grep: SECRET }]) {
      const query = new URLSearchParams(filter).toString()
      assert.equal((await ask(`${bulk('hold')}?${query}`, 'GET', sent(id))).status, 403)
      assert.equal((await ask(bulk('hold'), 'POST', sent(id), { csrf, count: '9', ...filter })).status, 403)
    }
    assert.equal(stateOf(spool), before)
  })
})
