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
/** One that no machine has. */
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
  it('is the user itself; root is only its parent, and works nowhere', async () => {
    const spool = userSpool()
    const daemon = await startDaemon({ spool, ini: UNDER_ROOT })
    assert.deepEqual(identityOf(daemon.pid).uids, [0, 0, 0, 0])
    const [master = 0] = daemon.workers()
    assert.deepEqual(identityOf(master).uids, [USER, USER, USER, USER])
    assert.deepEqual(identityOf(master).gids, [USER, USER, USER, USER])
    assert.equal(statSync(join(spool, '.spoold')).uid, USER)
  })

  it('has the groups that the user has, and those of add-gid, in its workers too', async () => {
    const spool = userSpool()
    const handler =
      'export default (env, task) => { JOURNAL(process.getgroups().join()); return task.SPOOL_OK }'
    chmodSync(dirname(spool), 0o777)
    const daemon = await startDaemon({ spool, handler, ini: { ...UNDER_ROOT, 'add-gid': ['7', '12'] } })
    giveAway(spool)
    await spoold(['enqueue', '--spooler', spool, 'a=b'])
    await until('it has run', () => daemon.journal().length === 1)
    const groups = (daemon.journal()[0] ?? '').split(',').map(Number)
    assert.ok(groups.includes(7) && groups.includes(12), String(groups))
    assert.ok(!groups.includes(0), "root's are gone")
  })

  it('has in its workers the groups of which a user with a name is a member', {
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
    await until('it has run', () => daemon.journal().length === 1)
    assert.deepEqual(daemon.journal(), [[GROUP, USER].sort((a, b) => a - b).join()])
  })

  it('says in a line that it may not become the user, as in a container without capabilities', async () => {
    const spool = userSpool()
    chownSync(dirname(spool), USER, USER) // below it, a process of that user is asked
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

  it('keeps pidfile, log and the file of a socket where only root may write', async () => {
    const spool = userSpool()
    const [pid, log, sock] = ['pid', 'log', 'sock'].map(name => join(dirname(spool), name)) as [
      string,
      string,
      string,
    ]
    const ini = { ...UNDER_ROOT, pidfile: pid, logto: log, socket: sock, vacuum: true }
    const daemon = await startDaemon({ spool, ini, isUnready: true })
    await until('it runs', () => existsSync(log) && /is running/.test(readFileSync(log, 'utf8')))
    assert.equal(readFileSync(pid, 'utf8'), `${daemon.pid}\n`)
    renameSync(log, `${log}.1`)
    daemon.child.kill('SIGHUP')
    await until(
      'the log is opened anew',
      () => existsSync(log) && /are reloaded/.test(readFileSync(log, 'utf8')),
    )
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual([existsSync(pid), existsSync(sock)], [false, false])
    assert.match(readFileSync(log, 'utf8'), /goodbye to uWSGI/)
  })

  it('ends when its parent is killed, and ends it with its own exit code', async () => {
    const daemon = await startDaemon({ spool: userSpool(), ini: UNDER_ROOT })
    const [master = 0] = daemon.workers()
    daemon.child.kill('SIGKILL')
    await until('it has ended', () => !existsSync(`/proc/${master}`))
    const failing = await startDaemon({
      spool: userSpool(),
      handler: 'throw new Error("boom")',
      ini: UNDER_ROOT,
      isUnready: true,
    })
    assert.equal(await failing.code(), 1)
    assert.match(failing.output, /spoold: \[HANDLER_UNLOADABLE\]/)
  })

  it('writes nothing through names that the owner of the spool has planted', async () => {
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

describe('a daemon that is root', { skip }, () => {
  it("does not work in somebody else's spool, and says what to set", async () => {
    const spool = userSpool()
    const daemon = await startDaemon({ spool, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /\[SPOOL_UNUSABLE\] .* belongs to uid 65534.*set uid = 65534/)
    assert.ok(!existsSync(join(spool, '.spoold')))
  })

  it('takes no .spoold that is a link, or that somebody else has made', async () => {
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

  it('makes a missing spool for uid only where no other user can exchange names', async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    rmdirSync(spool)
    await startDaemon({ spool, ini: { uid: USER, gid: USER } })
    const { uid, gid, mode } = statSync(spool)
    assert.deepEqual([uid, gid, mode & 0o7777], [USER, USER, 0o750])
  })
})

describe('commands of root', { skip }, () => {
  it('are not kept root by a .spoold that leads to what is root’s', async () => {
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

  it('act in the spools of several users as each of them', async () => {
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

  it('enqueue as who runs the tasks', async () => {
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

  it('give away no file of root’s that was moved into a spool', async () => {
    const spool = userSpool()
    writeFileSync(join(spool, 'a'), 'root:x:0:0', { mode: 0o600 })
    drop(spool, 'b')
    const { stdout } = await spoold(['fsck', '--repair', spool])
    assert.match(stdout, /left rights a: .*not a spool packet/)
    assert.deepEqual([statSync(join(spool, 'a')).uid, statSync(join(spool, 'b')).uid], [0, USER])
  })
})

describe('a priority directory that was exchanged for a link', () => {
  it('leads no process out of the spool', async () => {
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
  it('are no links in a directory of somebody else’s', async () => {
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
        /\[LOG_UNWRITABLE\] .*permission denied.*as uid 65534: others than root make names above it/,
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

  it('may be links where only root makes them', async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    const [link, log] = [join(dirname(spool), 'link'), join(dirname(spool), 'log')]
    symlinkSync(log, link)
    const daemon = await startDaemon({ spool, ini: { logto: link }, isUnready: true })
    await until('it runs', () => existsSync(log) && /is running/.test(readFileSync(log, 'utf8')))
    assert.ok(daemon.isRunning)
  })
})

describe('a daemon whose user may not read', { skip }, () => {
  /** A directory of root's, in which nobody else may enter. */
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

  it('its own program says so, with what stops it, and starts no process', async () => {
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

  it('its handler says so, with the line, and starts no process', async () => {
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

  it('its spool says so, with what stops it, and starts no process', async () => {
    const [inner, open] = [closed(), dirname(userSpool())]
    const spool = join(inner, 'spool')
    mkdirSync(spool)
    const said = await refusal(BIN, write(join(open, 'app.ini'), handlerIn(open), spool))
    assert.match(said, new RegExp(`${inner} cannot be entered by uid ${USER} \\(.*0700.*\\)`))
  })

  it('its ini warns that a reload will fail, and runs', async () => {
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
