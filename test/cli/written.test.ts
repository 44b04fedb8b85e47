import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { writtenBy } from '#src/doors/check/written.js'
import { OPTION_TABLE, type OptionSpec } from '#src/formats/config/option-table.js'
import { resolveOptions } from '#src/formats/config/options.js'
import { readConfig } from '#src/formats/ini/read-config.js'
import { USER } from '../helpers/canaries.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { skipUnless } from '../helpers/requires.js'
import { workspace } from '../helpers/workspace.js'

/** The settings that write something, each in a directory of its own below `home`. */
const settingsIn = (home: string) => ({
  socket: `${home}/socket/s`,
  stats: `${home}/stats/s`,
  'stats-push': `file:path=${home}/stats-push/f.json`,
  'spooler-metrics': `${home}/spooler-metrics/s`,
  'spooler-metrics-file': `${home}/spooler-metrics-file/f.prom`,
  'spooler-dashboard': `${home}/spooler-dashboard/s,role=admin,payload`,
  daemonize: `${home}/daemonize/log`,
  pidfile: `${home}/pidfile/pid`,
  'safe-pidfile': `${home}/safe-pidfile/pid`,
  'spooler-control': `${home}/spooler-control/s,role=viewer`,
  'master-fifo': `${home}/master-fifo/fifo`,
  logto: `${home}/logto/log`,
})
/** The options whose file or address is read, watched or connected to. */
const READ = [
  'touch-spoolers-reload',
  'touch-reload',
  'spooler-cheaper-algo',
  'spooler-import',
  'perl-exec',
  'perl-exec-post-fork',
  'shared-rbrequire',
  'rbrequire',
  'wsgi-file',
  'pecan',
  'ini-paste',
  'psgi',
  'rack',
  'fs-signal',
  'touch-signal',
  'spooler-dashboard-tokens',
  'carbon',
  'spooler-alarm',
]

function configured(home: string, settings: object, uid?: number): string {
  for (const name of ['spool', ...Object.keys(settings)]) mkdirSync(join(home, name), { recursive: true })
  const ini = join(home, 'app.ini')
  const handler = join(home, 'h.mjs')
  writeFileSync(handler, 'export default () => {}\n')
  const user = uid === undefined ? {} : { uid, gid: uid }
  writeIni(ini, { spooler: join(home, 'spool'), 'spooler-import': handler, ...user, ...settings })
  return ini
}

describe('what a configuration writes', () => {
  it('is what the option table marks as written, among all options that take a path', () => {
    const written = OPTION_TABLE.flatMap((spec: OptionSpec) => (spec.writes === undefined ? [] : spec.name))
    assert.deepEqual(written.sort(), Object.keys(settingsIn('/x')).sort())
    const others = OPTION_TABLE.filter(
      ({ value = '', writes, kind }: OptionSpec) =>
        writes === undefined && kind === 'text' && /\b(?:LOG)?FILE\b|ADDRESS|PATH\b|KIND:WHERE/.test(value),
    )
    assert.deepEqual(
      others.map(({ name }) => name).filter(name => !READ.includes(name)),
      [],
    )
  })

  it('has a path for each such option', () => {
    const home = workspace()
    const config = readConfig({
      environment: {},
      commandLine: [],
      files: [configured(home, settingsIn(home))],
      version: '0',
    })
    const paths = writtenBy(resolveOptions(config).options, '/').map(({ name, path = '' }) => [
      name,
      path.startsWith(join(home, name)),
    ])
    assert.deepEqual(
      paths.sort(),
      Object.keys(settingsIn(''))
        .sort()
        .map(name => [name, true]),
    )
  })

  it('needs its directory, as check says when that is missing', async () => {
    const home = workspace()
    for (const [name, value] of Object.entries(settingsIn(join(home, 'missing')))) {
      const { stdout } = await inProcess(['check', configured(home, { [name]: value })])
      assert.match(stdout, new RegExp(`(?:error|warning): ${name}: .*no directory .*missing/${name}`), name)
    }
  })

  it('is in ReadWritePaths of unit --hardened', async () => {
    const home = workspace()
    const { stdout, stderr } = await inProcess(['unit', '--hardened', configured(home, settingsIn(home))])
    const paths = /^ReadWritePaths=(.*)$/m.exec(stdout)?.[1]?.split(' ') ?? []
    for (const name of Object.keys(settingsIn(home)))
      assert.ok(paths.includes(join(home, name)), `${name}: ${paths.join(' ')}${stderr}`)
  })

  it('makes the unit wait for the network, even if only figures are published there', async () => {
    const home = workspace()
    const { stdout } = await inProcess(['unit', configured(home, { stats: '127.0.0.1:9191' })])
    assert.match(stdout, /^After=.*network/m)
  })
})

describe('doctor, as the user of the configuration', { skip: skipUnless('root') }, () => {
  it('tries each path that this user writes, and says what stands in the way', async () => {
    const home = workspace()
    chmodSync(home, 0o755)
    const { daemonize, ...settings } = settingsIn(home)
    const tokens = join(home, 'tokens')
    writeFileSync(tokens, 'x\n', { mode: 0o600 })
    const ini = configured(home, { ...settings, 'spooler-dashboard-tokens': tokens }, USER)
    chownSync(join(home, 'spool'), USER, USER)
    const roots = ['socket', 'pidfile', 'logto', 'spooler-control']
    const own = Object.keys(settings).filter(name => !roots.includes(name))
    const found = await spoold(['doctor', ini])
    for (const name of own)
      assert.match(found.stdout, new RegExp(`^error +(?:file|socket): ${name} .*uid 65534 cannot write`, 'm'))
    for (const name of roots) assert.match(found.stdout, new RegExp(`^ok +(?:file|socket): ${name} `, 'm'))
    assert.match(found.stdout, /^error +file: spooler-dashboard-tokens .*EACCES/m)
    for (const name of own) chownSync(join(home, name), USER, USER)
    chownSync(tokens, USER, USER)
    const fixed = await spoold(['doctor', ini])
    for (const name of own) assert.match(fixed.stdout, new RegExp(`^ok +(?:file|socket): ${name} `, 'm'))
    assert.match(fixed.stdout, /^ok +file: spooler-dashboard-tokens /m)
  })

  it('notes an address on which a program listens already', async () => {
    const home = workspace()
    const servers = [createServer(), createServer()]
    const [tcp, unix] = servers
    await new Promise<void>(done => tcp?.listen(0, '127.0.0.1', done))
    await new Promise<void>(done => unix?.listen(join(home, 's'), done))
    const address = tcp?.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const ini = configured(home, { stats: `127.0.0.1:${port}`, 'spooler-metrics': join(home, 's') })
    const { stdout } = await spoold(['doctor', ini])
    for (const name of ['stats', 'spooler-metrics'])
      assert.match(stdout, new RegExp(`^note +socket: ${name} .*: a program listens on it now`, 'm'))
    for (const server of servers) server.close()
  })

  it('reports an address of another machine, and a socket path that is another file, as errors', async () => {
    const home = workspace()
    writeFileSync(join(home, 's'), '')
    const ini = configured(home, { stats: '203.0.113.1:9191', 'spooler-metrics': join(home, 's') })
    const { stdout } = await spoold(['doctor', ini])
    assert.match(stdout, /^error +socket: stats .*cannot bind it: .*EADDRNOTAVAIL/m)
    assert.match(stdout, /^error +socket: spooler-metrics .*: there is another file of this name/m)
  })
})
