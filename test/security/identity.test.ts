import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { Canaries, giveAway, USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { openEngine } from '../helpers/engine.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { identityOf } from '../helpers/proc.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

const skip = skipUnless('root')
/** A gid that no machine uses. */
const GROUP = 65_123
const UNDER_ROOT = { uid: USER, gid: USER, 'master-as-root': true }

/** A spool of the user, in a directory that others may enter. */
function userSpool(): string {
  const spool = spoolDirectory()
  chmodSync(dirname(spool), 0o755)
  giveAway(spool)
  return spool
}

describe('a daemon with master-as-root', { skip }, () => {
  it('runs as the user, and only its parent runs as root', async () => {
    const spool = userSpool()
    const daemon = await startDaemon({ spool, ini: UNDER_ROOT })
    assert.deepEqual(identityOf(daemon.pid).uids, [0, 0, 0, 0])
    const [master = 0] = daemon.workers()
    assert.deepEqual(identityOf(master).uids, [USER, USER, USER, USER])
    assert.deepEqual(identityOf(master).gids, [USER, USER, USER, USER])
    assert.equal(statSync(join(spool, '.spoold')).uid, USER)
  })

  it('gives its workers the groups of add-gid, and none of root', async () => {
    const spool = userSpool()
    const handler =
      'export default (env, task) => { JOURNAL(process.getgroups().join()); return task.SPOOL_OK }'
    chmodSync(dirname(spool), 0o777)
    const daemon = await startDaemon({ spool, handler, ini: { ...UNDER_ROOT, 'add-gid': ['7', '12'] } })
    giveAway(spool)
    await spoold(['enqueue', '--spooler', spool, 'a=b'])
    await until('the task has run', () => daemon.journal().length === 1)
    const groups = (daemon.journal()[0] ?? '').split(',').map(Number)
    assert.ok(groups.includes(7) && groups.includes(12), String(groups))
    assert.ok(!groups.includes(0), 'the group of root is dropped')
  })

  it('gives its workers the groups of which the user is a member, if uid is a name', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const spool = userSpool()
    chmodSync(dirname(spool), 0o777)
    const groups = join(dirname(spool), 'group')
    writeFileSync(groups, `${readFileSync('/etc/group', 'utf8')}spoold-test:x:${GROUP}:nobody\n`)
    const script = `mount --bind ${groups} /etc/group && exec "$@"`
    const daemon = await startDaemon({
      spool,
      handler: 'export default (env, task) => { JOURNAL(process.getgroups().join()); return task.SPOOL_OK }',
      ini: { uid: 'nobody', gid: USER, 'master-as-root': true },
      under: ['unshare', '-m', 'sh', '-c', script, 'sh'],
    })
    await spoold(['enqueue', '--spooler', spool, 'a=b'])
    await until('the task has run', () => daemon.journal().length === 1)
    assert.deepEqual(daemon.journal(), [[GROUP, USER].sort((a, b) => a - b).join()])
  })

  it('logs in one line that it cannot become the user, as in a container without capabilities', async () => {
    const spool = userSpool()
    chownSync(dirname(spool), USER, USER) // below it, paths are opened by a process of that user
    const daemon = await startDaemon({
      spool,
      ini: { uid: USER, gid: USER },
      under: ['setpriv', '--bounding-set=-setuid,-setgid', '--inh-caps=-setuid,-setgid'],
      isUnready: true,
    })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /^cannot become uid \d+ gid \d+: EPERM/m)
    assert.doesNotMatch(daemon.output, /^ +at /m)
  })

  it('creates, reopens and removes its pidfile, log and socket where only root may write', async () => {
    const spool = userSpool()
    const [pid, log, sock] = ['pid', 'log', 'sock'].map(name => join(dirname(spool), name)) as [
      string,
      string,
      string,
    ]
    const ini = { ...UNDER_ROOT, pidfile: pid, logto: log, socket: sock, vacuum: true }
    const daemon = await startDaemon({ spool, ini, isUnready: true })
    await until('the daemon runs', () => existsSync(log) && /is running/.test(readFileSync(log, 'utf8')))
    assert.equal(readFileSync(pid, 'utf8'), `${daemon.pid}\n`)
    renameSync(log, `${log}.1`)
    daemon.child.kill('SIGHUP')
    await until(
      'the log is reopened',
      () => existsSync(log) && /are reloaded/.test(readFileSync(log, 'utf8')),
    )
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual([existsSync(pid), existsSync(sock)], [false, false])
    assert.match(readFileSync(log, 'utf8'), /goodbye to uWSGI/)
  })

  it('ends if its parent is killed, and passes its exit code to its parent', async () => {
    const daemon = await startDaemon({ spool: userSpool(), ini: UNDER_ROOT })
    const [master = 0] = daemon.workers()
    daemon.child.kill('SIGKILL')
    await until('the master has ended', () => !existsSync(`/proc/${master}`))
    const failing = await startDaemon({
      spool: userSpool(),
      handler: 'throw new Error("boom")',
      ini: UNDER_ROOT,
      isUnready: true,
    })
    assert.equal(await failing.code(), 1)
    assert.match(failing.output, /spoold: \[HANDLER_UNLOADABLE\]/)
  })

  it('writes through no symbolic link that the owner of the spool has planted', async () => {
    const spool = userSpool()
    const outside = new Canaries(join(dirname(spool), 'outside'))
    const daemon = await startDaemon({ spool, ini: UNDER_ROOT })
    for (const pid of [daemon.pid, ...daemon.workers()])
      symlinkSync(join(outside.path, 'victim'), join(spool, '.spoold', `probe-${pid}`))
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/the spoolers are reloaded|reload is rejected/)
    outside.assertUntouched('a reload')
  })
})

describe('a daemon that runs as root', { skip }, () => {
  it('refuses the spool of another user, and says which uid to set', async () => {
    const spool = userSpool()
    const daemon = await startDaemon({ spool, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /\[SPOOL_UNUSABLE\] .* belongs to uid 65534.*set uid = 65534/)
    assert.ok(!existsSync(join(spool, '.spoold')))
  })

  it('refuses a .spoold that is a symbolic link, or that belongs to another user', async () => {
    const spool = spoolDirectory()
    const outside = new Canaries(join(dirname(spool), 'outside'))
    symlinkSync(outside.path, join(spool, '.spoold'))
    const linked = await startDaemon({ spool, isUnready: true })
    assert.equal(await linked.code(), 1)
    assert.match(linked.output, /\.spoold is not a directory.*mv /)
    outside.assertUntouched('a start')

    const shared = spoolDirectory()
    mkdirSync(join(shared, '.spoold'), { mode: 0o700 })
    giveAway(join(shared, '.spoold'))
    const foreign = await startDaemon({ spool: shared, isUnready: true })
    assert.equal(await foreign.code(), 1)
    assert.match(
      foreign.output,
      /\.spoold belongs to uid 65534, and uid 0 takes only its own.*chown -R -h 0:0/,
    )
  })

  it('creates a missing spool with mode 0750 for uid and gid', async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    rmdirSync(spool)
    await startDaemon({ spool, ini: { uid: USER, gid: USER } })
    const { uid, gid, mode } = statSync(spool)
    assert.deepEqual([uid, gid, mode & 0o7777], [USER, USER, 0o750])
  })
})

describe('commands of root', { skip }, () => {
  it('change nothing in a directory of root to which .spoold is a symbolic link', async () => {
    const spool = userSpool()
    drop(spool, 'a')
    giveAway(spool)
    const outside = new Canaries(join(dirname(spool), 'outside'))
    symlinkSync(outside.path, join(spool, '.spoold'))
    for (const args of [
      ['purge', '--all', spool],
      ['hold', join(spool, 'a')],
      ['rm', join(spool, 'a')],
      ['fsck', '--repair', spool],
      ['enqueue', '--spooler', spool, '--id', 'x', 'a=b'],
      ['ls', spool],
    ]) {
      await spoold(args)
      outside.assertUntouched(args.join(' '))
    }
  })

  it('act as the owner of each spool if the spools belong to several users', async () => {
    const [mine, theirs] = [spoolDirectory(), userSpool()]
    for (const spool of [mine, theirs]) drop(spool, 'a')
    giveAway(theirs)
    const held = await spoold(['hold', join(mine, 'a'), join(theirs, 'a')])
    assert.equal(held.code, 0, held.stderr)
    assert.deepEqual(
      [mine, theirs].map(spool => statSync(join(spool, '.spoold/records/a.json')).uid),
      [0, USER],
    )
    const checked = await spoold(['fsck', '--repair', mine, theirs])
    assert.equal(checked.code, 0, checked.stdout + checked.stderr)
    assert.match(checked.stdout, /: clean/)
  })

  it('enqueue as the user who runs the tasks', async () => {
    const spool = userSpool()
    const secret = join(dirname(spool), 'secret')
    writeFileSync(secret, 'body', { mode: 0o600 })
    const stored = await spoold(['enqueue', '--spooler', spool, '--body', secret, '--priority', '5', 'a=b'])
    assert.equal(stored.code, 0, stored.stderr)
    const ini = join(dirname(spool), 'app.ini')
    const missing = join(dirname(spool), 'new')
    writeIni(ini, { spooler: missing, uid: USER, gid: USER })
    assert.equal((await spoold(['enqueue', '--ini', ini, 'a=b'])).code, 0)
    for (const path of [
      join(spool, '5'),
      stored.stdout.trim(),
      missing,
      join(missing, readdirSync(missing)[0] ?? ''),
    ])
      assert.equal(statSync(path).uid, USER, path)
  })

  it('do not give away a file of root that was moved into a spool', async () => {
    const spool = userSpool()
    writeFileSync(join(spool, 'a'), 'root:x:0:0', { mode: 0o600 })
    drop(spool, 'b')
    const { stdout } = await spoold(['fsck', '--repair', spool])
    assert.match(stdout, /left rights a: .*not a spool packet/)
    assert.deepEqual([statSync(join(spool, 'a')).uid, statSync(join(spool, 'b')).uid], [0, USER])
  })
})

describe('a priority directory that was replaced with a symbolic link', () => {
  it('leads neither the engine nor a command out of the spool', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    drop(spool, '5/a')
    const outside = join(dirname(spool), 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'a'), packet({}))
    const engine = await openEngine(spool)
    renameSync(join(spool, '5'), join(spool, '.5'))
    symlinkSync(outside, join(spool, '5'))
    const claim = engine.claim('5/a')
    assert.equal('kind' in claim ? claim.kind : 'claimed', 'gone')
    for (const args of [
      ['rm', join(spool, '5/a')],
      ['hold', join(spool, '5/a')],
      ['enqueue', '--spooler', spool, '--priority', '5', 'a=b'],
    ])
      await spoold(args)
    assert.deepEqual(leftIn(outside), ['a'])
    assert.deepEqual(readFileSync(join(outside, 'a')), packet({}))
  })
})

describe('files that are opened as root', { skip }, () => {
  it('may not be symbolic links in a directory of another user, and a pidfile has to hold a pid', async () => {
    const spool = userSpool()
    const home = join(dirname(spool), 'home')
    const outside = new Canaries(join(dirname(spool), 'outside'))
    mkdirSync(home)
    symlinkSync(join(outside.path, 'victim'), join(home, 'link'))
    writeFileSync(join(home, 'precious'), 'precious\n', { mode: 0o600 })
    giveAway(home)
    const user = { uid: USER, gid: USER }
    for (const [option, file, expected] of [
      ['pidfile', 'link', /\[START_FAILED\] the pidfile .*symbolic link/],
      ['pidfile', 'precious', /\[START_FAILED\] the pidfile .*holds no pid/],
      [
        'logto',
        'link',
        /\[LOG_UNWRITABLE\] .*permission denied.*as uid 65534: users other than root can create names above it/,
      ],
    ] as const) {
      const daemon = await startDaemon({
        spool,
        ini: { ...user, [option]: join(home, file) },
        isUnready: true,
      })
      assert.equal(await daemon.code(), 1, `${option} ${file}`)
      assert.match(daemon.output, expected)
    }
    outside.assertUntouched('pidfile and log')
    assert.equal(readFileSync(join(home, 'precious'), 'utf8'), 'precious\n')
  })

  it('may be symbolic links in a directory where only root can create them', async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    const [link, log] = [join(dirname(spool), 'link'), join(dirname(spool), 'log')]
    symlinkSync(log, link)
    const daemon = await startDaemon({ spool, ini: { logto: link }, isUnready: true })
    await until('the daemon runs', () => existsSync(log) && /is running/.test(readFileSync(log, 'utf8')))
    assert.ok(daemon.isRunning)
  })
})

describe('a daemon whose user has no read access', { skip }, () => {
  /** A directory of root's that nobody else may enter. */
  function closed(): string {
    const outer = workspace()
    chmodSync(outer, 0o755)
    const inner = join(outer, 'root')
    mkdirSync(inner, { mode: 0o700 })
    return inner
  }
  const stops = (directory: string) => `${directory} has mode 0700 and belongs to uid 0`
  const write = (ini: string, handler: string, spooler = userSpool()) => {
    writeIni(ini, { spooler, 'spooler-import': handler, uid: USER, gid: USER })
    return ini
  }
  const handlerIn = (directory: string) => {
    const file = join(directory, 'handler.mjs')
    writeFileSync(file, 'export default (env, task) => task.SPOOL_OK')
    return file
  }
  async function refusal(program: string, ini: string): Promise<string> {
    const daemon = new TestProcess(process.execPath, [program, ini])
    assert.equal(await daemon.code(), 1, daemon.output)
    assert.doesNotMatch(daemon.output, /spawned the uWSGI spooler| {4}at /)
    return daemon.output
  }

  it('to spoold itself says which directory denies it, and starts no process', async () => {
    const [inner, open] = [closed(), dirname(userSpool())]
    for (const part of ['bin', 'dist', 'package.json'])
      cpSync(join(ROOT, part), join(inner, part), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(inner, 'node_modules'))
    const said = await refusal(join(inner, 'bin/spoold.js'), write(join(open, 'app.ini'), handlerIn(open)))
    assert.ok(
      said.includes(`uid ${USER} cannot read spoold itself, ${inner}/dist/worker.cjs: ${stops(inner)}`),
      said,
    )
  })

  it('to its handler says so, with the line of the ini, and starts no process', async () => {
    const [inner, open] = [closed(), dirname(userSpool())]
    const handler = handlerIn(inner)
    const said = await refusal(BIN, write(join(open, 'app.ini'), handler))
    assert.ok(
      said.includes(
        `app.ini:3: error: spooler-import: ${handler} cannot be read: ${stops(inner)}; it is read as uid ${USER}`,
      ),
      said,
    )
  })

  it('to its spool says which directory denies it, and starts no process', async () => {
    const [inner, open] = [closed(), dirname(userSpool())]
    const spool = join(inner, 'spool')
    mkdirSync(spool)
    const said = await refusal(BIN, write(join(open, 'app.ini'), handlerIn(open), spool))
    assert.match(said, new RegExp(`${inner} cannot be entered by uid ${USER} \\(.*0700.*\\)`))
  })

  it('to its ini warns that a reload will fail, and runs', async () => {
    const [inner, open] = [closed(), dirname(userSpool())]
    const ini = write(join(inner, 'app.ini'), handlerIn(open))
    const daemon = new TestProcess(process.execPath, [BIN, ini])
    await daemon.waitFor(/spoold \S+ is running/)
    assert.ok(
      daemon.output.includes(`uid ${USER} cannot read ${ini}, so a reload will fail: ${stops(inner)}`),
      daemon.output,
    )
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})
