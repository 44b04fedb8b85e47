import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { checkConfig } from '#src/doors/check/check.js'
import { parseDashboard } from '#src/doors/net/dashboard-address.js'
import { workspace } from '../helpers/workspace.js'

const where = { file: 'command line' }

function errorsOf(settings: Readonly<Record<string, string>>): string {
  return saidOf(settings, 'errors')
}

function saidOf(settings: Readonly<Record<string, string>>, severity: 'errors' | 'warnings'): string {
  const commandLine = Object.entries(settings).map(([key, value]) => ({ key, value, where }))
  const { problems } = checkConfig({ environment: {}, commandLine, files: [], version: '1.2.3' })
  return problems[severity].map(({ message }) => message).join('\n')
}

describe('spooler-dashboard', () => {
  it('has a role and a mode, which is 660 by default for viewers and proxies alone', () => {
    const rights = (text: string) => {
      const { address, mode, role, mayReadPayload, isProxied, hosts } = parseDashboard(text)
      return [address, mode.toString(8), role, mayReadPayload, isProxied, ...hosts]
    }
    assert.deepEqual(rights('127.0.0.1:8717'), ['127.0.0.1:8717', '660', 'viewer', false, false])
    assert.deepEqual(rights('[::1]:8717,host=Box'), ['[::1]:8717', '660', 'viewer', false, false, 'box'])
    assert.deepEqual(rights('/run/a.sock'), ['/run/a.sock', '660', 'viewer', false, false])
    assert.deepEqual(rights('/run/a.sock,mode=0666'), ['/run/a.sock', '666', 'viewer', false, false])
    assert.deepEqual(rights('/run/a.sock,role=admin,payload'), ['/run/a.sock', '600', 'admin', true, false])
    assert.deepEqual(rights('./a.sock,role=operator,mode=660'), ['./a.sock', '660', 'operator', false, false])
    const proxy = ['/run/a.sock', '660', 'viewer', false, true, 'a.example', 'b.example']
    assert.deepEqual(rights('/run/a.sock,proxy,host=a.example,host=b.example'), proxy)
  })

  for (const text of [
    '',
    '127.0.0.1:8717,role=admin',
    '127.0.0.1:8717,payload',
    '127.0.0.1:8717,proxy',
    ':8717,mode=600',
    '@abstract',
    '/run/a.sock,role=root',
    '/run/a.sock,mode=rw',
    '/run/a.sock,mode=0662,role=operator',
    '/run/a.sock,mode=0666,payload',
    '/run/a.sock,mode=0666,proxy',
    '/run/a.sock,host=',
    '/run/a.sock,color=red',
    '/run/a.sock,proxies',
    '127.0.0.1:99999',
  ])
    it(`is refused: ${text}`, () => {
      assert.throws(() => parseDashboard(text), { code: 'ADDRESS_INVALID' })
      if (text !== '') assert.match(errorsOf({ 'spooler-dashboard': text }), /spooler-dashboard: /)
    })

  it('has a warning if the file of its tokens is missing, and none once it is there', () => {
    const file = join(workspace(), 'tokens')
    const settings = { 'spooler-dashboard': '127.0.0.1:8717', 'spooler-dashboard-tokens': file }
    const missing = /spooler-dashboard-tokens: there is no file .*tokens, so no token is accepted/
    assert.match(saidOf(settings, 'warnings'), missing)
    writeFileSync(file, '')
    assert.doesNotMatch(saidOf(settings, 'warnings'), /spooler-dashboard-tokens/)
  })

  it('needs tokens and spooler-http-insecure when other machines can reach it', () => {
    const [address, insecure] = [{ 'spooler-dashboard': '0.0.0.0:8717' }, { 'spooler-http-insecure': 'on' }]
    const tokens = { 'spooler-dashboard-tokens': '/etc/tokens' }
    assert.match(errorsOf(address), /would use it over plain HTTP/)
    assert.match(errorsOf({ ...address, ...insecure }), /would see it; set spooler-dashboard-tokens/)
    assert.doesNotMatch(errorsOf({ ...address, ...insecure, ...tokens }), /spooler-dashboard/)
    assert.doesNotMatch(errorsOf({ 'spooler-dashboard': '127.0.0.1:8717' }), /spooler-dashboard/)
  })
})
