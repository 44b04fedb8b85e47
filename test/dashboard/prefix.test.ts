import assert from 'node:assert/strict'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { parseDashboard } from '#src/doors/net/dashboard-address.js'
import { dropLater, send, startDashboard } from '../helpers/dashboard.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('prefix= of a dashboard behind a proxy', () => {
  it('begins all paths in pages, redirects and the cookie, and pages are found with it and without it', async () => {
    const spool = spoolDirectory()
    const { place } = await startDashboard({
      spool,
      handler: 'export default () => -2',
      hasTokens: false,
      ini: {
        'spooler-dashboard': `${join(dirname(spool), 'run/d.sock')},role=admin,payload,prefix=/admin/tasks`,
      },
    })
    dropLater(spool)
    const first = await send(place, '/admin/tasks/')
    assert.match(String(first.headers['set-cookie']), /; Path=\/admin\/tasks\/;/)
    const login = await send(place, '/login')
    assert.deepEqual([login.status, login.headers.location], [303, '/admin/tasks/'])
    const host = 'localhost' // as of a proxy that leaves out the port
    const headers = { host, origin: 'https://localhost:8443' }
    const refused = await send(place, '/admin/tasks/spools/spool/pause', { form: {}, headers })
    assert.equal(refused.status, 403)
    assert.match(
      refused.text,
      /of https:\/\/localhost:8443 \(Origin\), and it was sent to localhost \(Host\)/,
    )
    const seen = new Set<string>()
    const open = ['/admin/tasks/']
    for (let path = open.pop(); path !== undefined; path = open.pop()) {
      if (seen.has(path) || seen.size > 40) continue
      seen.add(path)
      const [kept, taken] = [
        await send(place, path),
        await send(place, path.replace('/admin/tasks', '') || '/'),
      ]
      assert.deepEqual([path, kept.status, taken.status], [path, 200, 200])
      if (!String(kept.headers['content-type']).startsWith('text/html')) continue
      const named = [...kept.text.matchAll(/\s(href|src|action|formaction|hx-get|hx-post)="([^"]*)"/g)]
      for (const [, attribute = '', value = ''] of named) {
        if (value.startsWith('#') || value.startsWith('?') || value.startsWith('https://')) continue
        assert.match(value, /^\/admin\/tasks\//, `${path}: ${attribute}`)
        if (attribute === 'href' || attribute === 'src') open.push(value.replaceAll('&amp;', '&'))
      }
    }
    assert.ok(seen.size > 15, [...seen].join(' '))
  })

  it('is a plain absolute path, or is refused', () => {
    assert.equal(parseDashboard('127.0.0.1:8717,prefix=/a/b/').prefix, '/a/b')
    assert.equal(parseDashboard('127.0.0.1:8717').prefix, '')
    for (const prefix of ['tasks', '//host', '/a"b', '/a b'])
      assert.throws(() => parseDashboard(`127.0.0.1:8717,prefix=${prefix}`), { code: 'ADDRESS_INVALID' })
  })
})
