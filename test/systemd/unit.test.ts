import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { giveAway, USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { type DaemonSetup, writeIni } from '../helpers/daemon.js'
import { untilGone } from '../helpers/proc.js'
import { skipUnless } from '../helpers/requires.js'
import { BIN, ROOT, workspace } from '../helpers/workspace.js'

/** Makes a configuration `app.ini` in a directory of its own. */
function application(ini: DaemonSetup['ini'] = {}, name = 'app') {
  const home = join(workspace(), name)
  mkdirSync(join(home, 'spool'), { recursive: true })
  writeFileSync(join(home, 'h.mjs'), 'export default () => -2')
  writeIni(join(home, 'app.ini'), { spooler: 'spool', 'spooler-import': 'h.mjs', ...ini })
  const print = async (...flags: string[]) => {
    const { code, stdout, stderr } = await spoold(['unit', 'app.ini', ...flags], { cwd: home })
    return { code, stderr, text: stdout, lines: stdout.split('\n') }
  }
  return { home, print }
}

/** Returns the values of a directive, in order. */
const valuesOf = (lines: readonly string[], name: string) =>
  lines.filter(line => line.startsWith(`${name}=`)).map(line => line.slice(name.length + 1))

describe('spoold unit', () => {
  it('prints a service that runs this configuration by this Node, with its user and timeouts', async () => {
    const { home, print } = application({
      uid: 'daemon',
      gid: 'daemon',
      'add-gid': 'mail',
      'worker-reload-mercy': '10m',
      'spooler-start-timeout': 90,
    })
    const { code, lines, stderr } = await print()
    assert.equal(code, 0)
    assert.equal(stderr, '')
    const expected = {
      Type: [/^notify(-reload)?$/],
      NotifyAccess: [],
      ExecStart: [`${realpathSync(process.execPath)} ${BIN} ${home}/app.ini`],
      User: ['daemon'],
      Group: ['daemon'],
      SupplementaryGroups: ['mail'],
      WorkingDirectory: [home],
      RequiresMountsFor: [`${home}/spool`],
      EnvironmentFile: ['-/etc/default/app'],
      KillMode: ['mixed'],
      TimeoutStartSec: ['120'],
      TimeoutStopSec: ['630'],
      WatchdogSec: ['60'],
      WatchdogSignal: ['SIGTERM'],
      Restart: ['on-failure'],
      WantedBy: ['multi-user.target'],
      ProtectSystem: [],
    }
    for (const [name, values] of Object.entries(expected)) {
      const found = valuesOf(lines, name)
      assert.equal(found.length, values.length, name)
      for (const [i, each] of values.entries())
        if (typeof each === 'string') assert.equal(found[i], each, name)
        else assert.match(found[i] ?? '', each)
    }
  })

  it('takes the user from the owner of the spool, and says what is missing', {
    skip: skipUnless('root'),
  }, async () => {
    const { home, print } = application()
    giveAway(join(home, 'spool'))
    const owned = await print()
    assert.deepEqual(valuesOf(owned.lines, 'User'), ['nobody'])
    const roots = application({ spooler: 'elsewhere', 'master-as-root': true, daemonize: 'log' })
    const { lines, stderr } = await roots.print()
    assert.deepEqual(valuesOf(lines, 'User'), [])
    assert.deepEqual(valuesOf(lines, 'NotifyAccess'), ['all'])
    assert.match(stderr, /^spoold: nothing names a user, and so the handlers run as root/m)
    assert.match(stderr, /^spoold: leave out daemonize/m)
    assert.match(stderr, /^spoold: master-as-root has no effect/m)
    assert.match(stderr, new RegExp(`^spoold: ${roots.home}/elsewhere is not there yet: install -d`, 'm'))
  })

  it('prints a service for systemctl --user, which names no user', async () => {
    const { lines } = await application({ uid: 'daemon' }).print('--user')
    assert.deepEqual(valuesOf(lines, 'User'), [])
    assert.deepEqual(valuesOf(lines, 'WantedBy'), ['default.target'])
    assert.deepEqual(valuesOf(lines, 'EnvironmentFile'), ['-%h/.config/app.env'])
  })

  it('prints a hardened service for systemctl --user, which takes no capabilities away', async () => {
    const { lines } = await application().print('--user', '--hardened')
    assert.deepEqual(valuesOf(lines, 'ProtectSystem'), ['strict'])
    for (const name of ['CapabilityBoundingSet', 'PrivateDevices', 'ProtectClock', 'ProtectKernelLogs'])
      assert.deepEqual(valuesOf(lines, name), [], name)
  })

  it('prints a oneshot service, which systemd does not restart, for drain = true', async () => {
    const { lines } = await application({ drain: true }).print()
    assert.deepEqual(valuesOf(lines, 'Type'), ['oneshot'])
    for (const name of ['Restart', 'WatchdogSec', 'WantedBy', 'NotifyAccess'])
      assert.deepEqual(valuesOf(lines, name), [])
  })

  it('has Type=notify-reload from systemd 253 on, and ExecReload before that', async () => {
    const { home } = application()
    const bin = join(home, 'bin')
    mkdirSync(bin)
    const typeUnder = async (version: number) => {
      writeFileSync(join(bin, 'systemctl'), `#!/bin/sh\necho "systemd ${version} (${version}.1-1)"\n`)
      chmodSync(join(bin, 'systemctl'), 0o755)
      const env = { PATH: `${bin}:${process.env.PATH}` }
      const { stdout } = await spoold(['unit', 'app.ini'], { cwd: home, env })
      const lines = stdout.split('\n')
      return [valuesOf(lines, 'Type')[0], valuesOf(lines, 'ExecReload')[0]]
    }
    assert.deepEqual(await typeUnder(252), ['notify', '/bin/kill -HUP $MAINPID'])
    assert.deepEqual(await typeUnder(253), ['notify-reload', undefined])
  })

  it('refuses a wrong configuration, a path that a unit cannot have, and --path with --socket', async () => {
    const wrong = await application({ umask: '9' }).print()
    assert.equal(wrong.code, 1)
    assert.match(wrong.stderr, /\[CONFIG_INVALID\].*\n.*umask: expected/)
    assert.equal(wrong.text, '')
    const strange = await application({}, 'a\tb').print()
    assert.equal(strange.code, 1)
    assert.match(
      strange.stderr,
      /cannot be written in a unit or a rule: expected UTF-8 without control characters/,
    )
    const two = await application().print('--path', '--socket')
    assert.equal(two.code, 64)
  })

  it('prints a path unit only for a daemon with die-on-idle', async () => {
    const refused = await application().print('--path')
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /expected die-on-idle = true and idle = 60 in \S*app\.ini/)
    const idle = { idle: 60, 'die-on-idle': true }
    const { home, print } = application(idle)
    assert.deepEqual(valuesOf((await print('--path')).lines, 'DirectoryNotEmpty'), [`${home}/spool`])
    assert.deepEqual(valuesOf((await print()).lines, 'WantedBy'), [])
    const ordered = application({ ...idle, 'spooler-ordered': true })
    mkdirSync(join(ordered.home, 'spool/7'))
    mkdirSync(join(ordered.home, 'spool/.spoold'))
    const { lines } = await ordered.print('--path')
    assert.deepEqual(valuesOf(lines, 'PathExistsGlob'), [`${ordered.home}/spool/[!0-9]*`])
    assert.deepEqual(valuesOf(lines, 'DirectoryNotEmpty'), [`${ordered.home}/spool/7`])
  })

  it('prints a socket unit with the addresses as systemd writes them', async () => {
    const { home, print } = application({
      socket: [':3031', '[::1]:3032', 'app.sock', '@abstract'],
      'chmod-socket': 660,
      'chown-socket': 'daemon:mail',
      listen: 100,
    })
    const { lines } = await print('--socket')
    const addresses = ['0.0.0.0:3031', '[::1]:3032', join(home, 'app.sock'), '@abstract']
    assert.deepEqual(valuesOf(lines, 'ListenStream'), addresses)
    assert.deepEqual(
      ['Backlog', 'SocketMode', 'SocketUser', 'SocketGroup'].map(name => valuesOf(lines, name)[0]),
      ['100', '0660', 'daemon', 'mail'],
    )
    assert.equal((await application({ socket: '127.0.0.1:0' }).print('--socket')).code, 1)
    assert.equal((await application().print('--socket')).code, 1)
  })
})

describe('the units', { skip: skipUnless('systemd') }, () => {
  const INI = {
    uid: 'daemon',
    gid: 'daemon',
    idle: 60,
    'die-on-idle': true,
    socket: ['127.0.0.1:3031', 'app.sock'],
    pidfile: 'run/pid',
  }

  /** Writes the units of a directory whose name has all characters that units quote. */
  async function written(ini: DaemonSetup['ini'], ...flags: string[]) {
    const { home, print } = application(ini, 'a b$c%z"e\\f;*g')
    mkdirSync(join(home, 'run'))
    const to = join(workspace(), 'units')
    mkdirSync(to)
    const kinds = { service: flags, path: ['--path'], socket: ['--socket'] }
    for (const [kind, args] of Object.entries(kinds))
      writeFileSync(join(to, `app.${kind}`), (await print(...args)).text)
    return { home, units: Object.keys(kinds).map(kind => join(to, `app.${kind}`)) }
  }

  for (const flags of [[], ['--hardened']])
    it(`pass systemd-analyze verify, whatever their paths are called: spoold unit ${flags.join(' ')}`, async () => {
      const { units } = await written(INI, ...flags)
      const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', ...units], {
        encoding: 'utf8',
      })
      assert.equal(stdout + stderr, '')
      assert.equal(status, 0)
    })

  it('of --hardened have an exposure of at most 2.5, and no MemoryDenyWriteExecute, which Node does not survive', async () => {
    const { home, print } = application({ uid: 'daemon', socket: 'app.sock' })
    const unit = join(home, 'app.service')
    const { text } = await print('--hardened')
    writeFileSync(unit, text)
    const rate = () =>
      spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=25', unit], {
        encoding: 'utf8',
      })
    const { status, stdout } = rate()
    assert.equal(status, 0, stdout)
    assert.match(stdout, /Overall exposure level for app\.service: (1|2)\.\d OK/)
    assert.doesNotMatch(text, /^MemoryDenyWriteExecute/m)
    writeFileSync(unit, (await print()).text)
    assert.notEqual(rate().status, 0, 'the plain unit is above the threshold')
  })

  it('of --hardened leave readable and writable what the configuration uses', async () => {
    const { home, print } = application({
      uid: 'daemon',
      logto: 'log/app.log',
      pidfile: 'run/pid',
      socket: 'run/s',
      'spooler-control': 'ctl/s',
    })
    for (const name of ['log', 'run', 'ctl']) mkdirSync(join(home, name))
    const { lines } = await print('--hardened')
    assert.deepEqual(valuesOf(lines, 'ReadWritePaths'), [`${home}/spool ${home}/run ${home}/ctl ${home}/log`])
    // ProtectHome=yes and PrivateTmp=yes of systemd would hide these
    const isHomeUsed = [home, ROOT, realpathSync(process.execPath)].some(path =>
      /^\/(home|root)\//.test(path),
    )
    assert.deepEqual(valuesOf(lines, 'ProtectHome'), [isHomeUsed ? 'read-only' : 'yes'])
    const temporary = workspace('/tmp')
    symlinkSync(join(home, 'h.mjs'), join(temporary, 'h.mjs'))
    const inTmp = application({ 'spooler-import': join(temporary, 'h.mjs') })
    assert.deepEqual(valuesOf((await inTmp.print('--hardened')).lines, 'PrivateTmp'), [])
    const isTmpUsed = [home, ROOT, process.execPath].some(path => path.startsWith('/tmp/'))
    assert.deepEqual(valuesOf(lines, 'PrivateTmp'), isTmpUsed ? [] : ['yes'])
  })

  it('of --hardened may bind a low port, and have no other capability', async () => {
    const { lines } = await application({ uid: 'daemon', socket: '127.0.0.1:80' }).print('--hardened')
    for (const name of ['AmbientCapabilities', 'CapabilityBoundingSet'])
      assert.deepEqual(valuesOf(lines, name), ['CAP_NET_BIND_SERVICE'])
  })
})

describe('a rule for logrotate', () => {
  it('rotates, gives the new file to the user, and signals the daemon', {
    skip: skipUnless('logrotate', 'root'),
  }, async () => {
    const { home, print } = application(
      { uid: USER, gid: USER, logto: 'log/app.log', pidfile: 'pid' },
      "it's a b",
    )
    mkdirSync(join(home, 'log'))
    const log = join(home, 'log/app.log')
    writeFileSync(log, 'a line\n')
    const rule = join(workspace(), 'rule')
    writeFileSync(rule, (await print('--logrotate')).text.replace('weekly\n', 'weekly\n    su root root\n'))
    chmodSync(rule, 0o644)
    const trial = spawnSync('logrotate', ['-d', rule], { encoding: 'utf8' })
    assert.equal(trial.status, 0, trial.stderr)
    assert.doesNotMatch(trial.stderr, /error/i)
    // a process that stands for the daemon, and ends at the signal
    const waits = execFileSync('sh', ['-c', 'sleep 60 >/dev/null 2>&1 & echo $!'], {
      encoding: 'utf8',
    }).trim()
    writeFileSync(join(home, 'pid'), `${waits}\n`)
    const { status, stderr } = spawnSync('logrotate', ['-f', '-s', join(home, 'state'), rule], {
      encoding: 'utf8',
    })
    assert.equal(status, 0, stderr)
    assert.equal(readFileSync(`${log}.1`, 'utf8'), 'a line\n')
    assert.equal(readFileSync(log, 'utf8'), '')
    assert.equal(statSync(log).uid, USER)
    await untilGone(Number(waits))
  })

  it('is refused if there is no log file', async () => {
    const { code, stderr } = await application().print('--logrotate')
    assert.equal(code, 1)
    assert.match(stderr, /expected logto or daemonize in \S*app\.ini: .*journal/)
  })

  it('reloads the service if there is no pidfile', async () => {
    const { text } = await application({ logto: 'log' }).print('--logrotate')
    assert.match(text, /^ +systemctl reload app\.service$/m)
  })
})
