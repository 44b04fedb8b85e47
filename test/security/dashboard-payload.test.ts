import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ROLES } from '#src/base/task/roles.js'
import { PAGES } from '#src/doors/dashboard/pages/index.js'
import { urlTextOf } from '#src/doors/dashboard/spools.js'
import { Browser, give, startDashboard } from '../helpers/dashboard.js'
import { drop, packet } from '../helpers/files.js'

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
