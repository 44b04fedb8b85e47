import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fstatSync,
  lchownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createServer, type Server } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { watchTouches } from '#src/system/files/directory-watch.js'
import { libc } from '#src/system/libc.js'
import { type Bound, inodeAt, Opener } from '#src/system/opener.js'
import { Canaries, giveAway, USER } from '../helpers/canaries.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { withoutKoffi } from '../helpers/elsewhere.js'
import { exchangeNames } from '../helpers/exchanger.js'
import { leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

const skip = skipUnless('root', 'python3')
const LASTS_MS = isLong ? 20_000 : 1000
/** A third user: neither root nor the user of the daemon. */
const THIRD = 65_100
/** Runs a program with stdio as its only descriptors, as a service manager does: a daemon that inherits others loads libc early. */
const CLEAN =
  'for fd in /proc/self/fd/*; do fd=$(basename $fd); ((fd > 2)) && eval "exec $fd>&-"; done; exec "$@"'
const APP = { uid: USER, gid: USER, user: null, groups: [] }

/** A directory of root's that all may enter. */
function open(): string {
  const path = workspace()
  chmodSync(path, 0o755)
  return path
}

function directory(path: string, uid: number, mode = 0o755, gid = uid): string {
  mkdirSync(path)
  chownSync(path, uid, gid)
  chmodSync(path, mode)
  return path
}

function file(path: string, uid: number, text = ''): string {
  writeFileSync(path, text, { mode: 0o640 })
  lchownSync(path, uid, uid)
  return path
}

async function listening(at: Bound): Promise<Server> {
  if ('server' in at) return at.server
  const server = createServer()
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(at, () => resolve(server))
  })
}

/** Writes to the log, holds the pidfile and binds the socket. @returns the owner of each */
async function useAll(
  opener: Opener,
  log: string,
  pidfile: string,
  socket: string,
): Promise<(number | undefined)[]> {
  const line = opener.append(log, 0o640)
  writeSync(line, 'a line\n')
  const held = opener.make(pidfile, 0o644)
  const { server, inode } = await opener.bind(socket, { mode: 0o666, owner: null }, listening)
  try {
    assert.equal(inodeAt(socket), inode)
    assert.equal(lstatSync(socket).mode & 0o777, 0o666)
    return [fstatSync(line).uid, fstatSync(held).uid, lstatSync(socket).uid]
  } finally {
    for (const fd of [line, held]) closeSync(fd)
    assert.equal(opener.remove(socket, inode), true)
    assert.equal(opener.remove(pidfile, inodeAt(pidfile) ?? ''), true)
    server.close()
  }
}

const inside = (path: string) =>
  [join(path, 'app.log'), join(path, 'app.pid'), join(path, 'app.sock')] as const
const LAYOUTS: ReadonlyArray<readonly [string, (home: string) => string, owner: number]> = [
  ['RuntimeDirectory= of systemd, owned by the user', home => directory(join(home, 'run'), USER), USER],
  [
    'LogsDirectory= of systemd, owned by the user, closed to others',
    home => directory(join(home, 'log'), USER, 0o700),
    USER,
  ],
  ['/var/log of Ubuntu, root:syslog 0775', home => directory(join(home, 'log'), 0, 0o775, THIRD), 0],
  [
    '/var/log/app, owned by www-data, in /var/log of Ubuntu',
    home => directory(join(directory(join(home, 'log'), 0, 0o775, THIRD), 'app'), USER, 0o750),
    USER,
  ],
  ['/run/app, owned by root', home => directory(join(home, 'run'), 0), 0],
  ['/tmp', home => directory(join(home, 'tmp'), 0, 0o1777), 0],
  [
    '/var/run, a symbolic link of root to /run',
    home => {
      directory(join(home, 'run'), USER)
      symlinkSync('run', join(home, 'var-run'))
      return join(home, 'var-run')
    },
    USER,
  ],
  [
    'a directory in a home directory',
    home => directory(join(directory(join(home, 'app'), USER, 0o700), 'spoold'), USER, 0o700),
    USER,
  ],
  [
    'a directory of a third user, closed to the user of the daemon',
    home => directory(join(home, 'other'), THIRD, 0o700),
    THIRD,
  ],
  [
    'current → releases/7, a symbolic link of the user',
    home => {
      const app = directory(join(home, 'app'), USER)
      directory(join(app, 'seven'), USER)
      symlinkSync('seven', join(app, 'current'))
      lchownSync(join(app, 'current'), USER, USER)
      return join(app, 'current')
    },
    USER,
  ],
]

describe('common directory layouts, for root with uid set', { skip: skipUnless('root') }, () => {
  for (const [what, make, owner] of LAYOUTS)
    it(`take the log, the pidfile and the socket, at a second start too: ${what}`, async () => {
      const paths = inside(make(open()))
      assert.deepEqual(await useAll(new Opener(APP), ...paths), [owner, owner, owner])
      assert.equal(readFileSync(paths[0], 'utf8'), 'a line\n')
      assert.deepEqual(await useAll(new Opener(APP), ...paths), [owner, owner, owner], 'at a second start')
      assert.deepEqual(readdirSync(realpathSync(dirname(paths[0]))), ['app.log'], 'nothing else is left')
    })

  it('take a log and a pidfile that the user owns from an earlier start: /var/log and /tmp', async () => {
    const home = open()
    for (const shared of [
      directory(join(home, 'log'), 0, 0o775, THIRD),
      directory(join(home, 'tmp'), 0, 0o1777),
    ]) {
      const paths = inside(shared)
      for (const path of paths.slice(0, 2)) file(path, USER)
      assert.deepEqual(await useAll(new Opener(APP), ...paths), [USER, USER, 0], shared)
    }
  })

  it('have a log of root set aside that an earlier start without uid left in a directory of the user', async () => {
    const log = directory(join(open(), 'log'), USER)
    file(join(log, 'app.log'), 0, 'earlier\n')
    assert.deepEqual(await useAll(new Opener(APP), ...inside(log)), [USER, USER, USER])
    assert.equal(readFileSync(join(log, 'app.log.old'), 'utf8'), 'earlier\n')
  })

  it('have a log of root set aside by a daemon that is started as the owner of the directory', () => {
    const home = open()
    const log = directory(join(home, 'log'), USER)
    file(join(log, 'app.log'), 0, 'earlier\n')
    const ini = join(home, 'app.ini')
    const spooler = directory(join(home, 'spool'), USER)
    writeIni(ini, { spooler, 'spooler-exec': 'true', logto: join(log, 'app.log') })
    const command = ['--norc', '-c', CLEAN, 'bash', process.execPath, BIN, '--drain', ini]
    const { status, stderr } = spawnSync('/bin/bash', command, { uid: USER, gid: USER })
    assert.deepEqual([status, String(stderr)], [0, ''])
    assert.equal(readFileSync(join(log, 'app.log.old'), 'utf8'), 'earlier\n')
  })

  it('take /dev/fd/N and /proc/self/fd/N as the path of a log', () => {
    const path = join(open(), 'log')
    const fd = new Opener(APP).append(path, 0o640)
    for (const name of [`/proc/self/fd/${fd}`, `/dev/fd/${fd}`]) {
      const again = new Opener(APP).append(name, 0o640)
      assert.equal(inodeAt(again), inodeAt(path))
      closeSync(again)
    }
    closeSync(fd)
  })
})

describe('root, in a directory where other users can create files', { skip: skipUnless('root') }, () => {
  it('refuses a log that is a hard link to a file of its own', () => {
    const home = open()
    const tmp = directory(join(home, 'tmp'), 0, 0o777)
    const secret = file(join(home, 'secret'), 0, 'secret\n')
    linkSync(secret, join(tmp, 'app.log'))
    assert.throws(
      () => new Opener(APP).append(join(tmp, 'app.log'), 0o640, { setsAside: false }),
      /EACCES.*as uid 65534/,
    )
    assert.throws(
      () => new Opener(null).append(join(tmp, 'app.log'), 0o640),
      /others make names there: remove it, or set uid/,
    )
    assert.equal(readFileSync(secret, 'utf8'), 'secret\n')
  })

  it('follows no symbolic link of the user, and opens no file of a third user for writing', () => {
    const home = open()
    const outside = new Canaries(join(home, 'outside'))
    const tmp = directory(join(home, 'tmp'), 0, 0o1777)
    symlinkSync(join(outside.path, 'victim'), join(tmp, 'link'))
    lchownSync(join(tmp, 'link'), USER, USER)
    symlinkSync(join(outside.path, 'new'), join(tmp, 'missing'))
    lchownSync(join(tmp, 'missing'), USER, USER)
    file(join(tmp, 'third'), THIRD)
    for (const user of [APP, null])
      for (const name of ['link', 'missing', 'third']) {
        assert.throws(() => new Opener(user).append(join(tmp, name), 0o640), Error, name)
        assert.throws(() => new Opener(user).make(join(tmp, name), 0o640), Error, name)
      }
    outside.assertUntouched('a shared directory')
    assert.equal(statSync(join(tmp, 'third')).size, 0)
  })

  it('neither waits for a FIFO of another user nor takes it as its master FIFO', { timeout: 20_000 }, () => {
    const home = directory(join(open(), 'app'), USER)
    const fifo = join(home, 'fifo')
    libc().mkfifo(fifo, 0o666)
    lchownSync(fifo, USER, USER)
    assert.throws(() => new Opener(APP).append(fifo, 0o640), /ENXIO/)
    assert.throws(() => new Opener(null).read(fifo), /is a FIFO of uid 65534/)
    assert.throws(
      () => new Opener(null).fifo(fifo, 0o600),
      /it belongs to uid 65534, who could command this daemon/,
    )
  })
})

/** A directory whose owner swaps it, and names in it, for symbolic links to files of root: existing ones and missing ones. */
class Trap {
  readonly home = directory(join(open(), 'home'), USER)
  readonly run = directory(join(this.home, 'run'), USER)
  readonly outside = new Canaries(join(dirname(this.home), 'outside'), ['there'])

  /** Replaces the directory with a symbolic link, once. */
  link(): void {
    rmSync(this.run, { recursive: true })
    symlinkSync(this.outside.path, this.run)
    lchownSync(this.run, USER, USER)
  }

  /** Keeps swapping the directory for such a link, and names in it for links to the file outside. */
  async exchange(): Promise<{ end(): Promise<void> }> {
    const other = join(this.home, '.run')
    symlinkSync(this.outside.path, other)
    const pairs: [string, string][] = [[this.run, other]]
    for (const name of ['there', 'new']) {
      symlinkSync(join(this.outside.path, 'there'), join(this.run, `.${name}`))
      file(join(this.run, name), USER)
      pairs.push([join(this.run, name), join(this.run, `.${name}`)])
    }
    const exchanger = await exchangeNames(USER, pairs)
    return {
      end: async () => {
        exchanger.child.kill('SIGKILL')
        await exchanger.exited
      },
    }
  }
}

describe('root, while the owner of a directory swaps it and its files for links to files of root', {
  skip,
}, () => {
  const put = (path: string, act: (path: string) => number) => {
    const fd = act(path)
    try {
      assert.equal(fstatSync(fd).uid, USER)
      writeSync(fd, 'x')
    } finally {
      closeSync(fd)
    }
  }
  const WAYS: ReadonlyArray<readonly [string, (opener: Opener, path: string) => unknown]> = [
    [
      'appends to a file (log, stats file, token file)',
      (opener, path) => put(path, each => opener.append(each, 0o640)),
    ],
    ['creates a file (pidfile)', (opener, path) => put(path, each => opener.make(each, 0o644))],
    ['removes a file (pidfile, socket)', (opener, path) => opener.remove(path, inodeAt(path) ?? '')],
    ['replaces a file (metrics file)', (opener, path) => opener.replace(path, 'x', 0o644)],
    [
      'creates a FIFO',
      (opener, path) => {
        const { fd } = opener.fifo(path, 0o600)
        closeSync(fd)
      },
    ],
    [
      'binds a socket',
      async (opener, path) => {
        const { server, inode } = await opener.bind(
          path,
          { mode: 0o600, owner: { uid: 7, gid: 12 } },
          listening,
        )
        try {
          opener.remove(path, inode)
        } finally {
          server.close()
        }
      },
    ],
    [
      'creates a directory (spool)',
      (opener, path) => opener.makeDirectory(path, 0o750, { uid: THIRD, gid: THIRD }),
    ],
  ]
  for (const [what, act] of WAYS)
    it(`leaves the files of root untouched when it ${what}`, async () => {
      const trap = new Trap()
      const { end } = await trap.exchange()
      const seen = { done: 0, refused: 0 }
      const until = performance.now() + LASTS_MS
      for (let i = 0; performance.now() < until || i < 20; i++)
        try {
          const opener = new Opener(i % 2 === 0 ? APP : null)
          await act(opener, join(trap.run, ['there', 'new', `fresh-${i}`][i % 3] ?? ''))
          seen.done++
        } catch {
          seen.refused++
        }
      await end()
      assert.ok(seen.refused > 0, JSON.stringify(seen))
      trap.outside.assertUntouched(what)
    })

  it('reads no file that the owner of the directory may not read', async () => {
    const trap = new Trap()
    writeFileSync(join(trap.outside.path, 'secret'), 'topsecret', { mode: 0o600 })
    const { end } = await trap.exchange()
    rmSync(join(trap.run, 'secret'), { force: true })
    try {
      file(join(trap.home, 'mine'), USER, 'mine')
    } catch {}
    const until = performance.now() + LASTS_MS
    let refused = 0
    while (performance.now() < until)
      try {
        assert.doesNotMatch(new Opener(null).readStart(join(trap.run, 'secret'), 64), /topsecret/)
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        refused++
      }
    await end()
    assert.ok(refused > 0)
  })
})

/** Runs code in a process without libc. @param body the code, which prints a result as JSON @returns that result */
async function withoutLibc<Found>(body: string, paths: readonly string[]): Promise<Found> {
  const code = `
    import { connect, createServer } from 'node:net'
    import { text } from 'node:stream/consumers'
    import fs from 'node:fs'
    import { libcFault } from ${JSON.stringify(import.meta.resolve('#src/system/libc.js'))}
    import { inodeAt, Opener } from ${JSON.stringify(import.meta.resolve('#src/system/opener.js'))}
    const listening = at => new Promise((resolve, reject) => {
      if ('server' in at) return resolve(at.server)
      const server = createServer()
      server.once('error', reject).listen(at, () => resolve(server))
    })
    const rights = { mode: 0o666, owner: null }
    const APP = ${JSON.stringify(APP)}
    const paths = ${JSON.stringify(paths)}
    if (libcFault() === undefined) throw new Error('libc is there')
    ${body}`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    env: { ...process.env, ...withoutKoffi() },
  })
  return JSON.parse(stdout)
}

describe('root, where libc cannot be called', { skip }, () => {
  it('opens and binds in all common directory layouts, as with libc', async () => {
    const found = await withoutLibc<unknown[][]>(
      `
      const look = async path => {
        const opener = new Opener(APP)
        const line = opener.append(path + '/app.log', 0o640)
        fs.writeSync(line, 'a line\\n')
        const held = opener.make(path + '/app.pid', 0o644)
        const owners = [fs.fstatSync(line).uid, fs.fstatSync(held).uid]
        for (const fd of [line, held]) fs.closeSync(fd)
        if (!opener.remove(path + '/app.pid', inodeAt(path + '/app.pid'))) throw new Error('a pidfile is left')
        return owners
      }
      const bind = async path => {
        const opener = new Opener(APP)
        const { server, inode } = await opener.bind(path + '/app.sock', rights, listening)
        server.on('connection', socket => socket.end('hello'))
        const { uid, mode } = fs.lstatSync(path + '/app.sock')
        const answer = await text(connect(path + '/app.sock'))
        opener.remove(path + '/app.sock', inode)
        server.close()
        return [uid, (mode & 0o777).toString(8), answer]
      }
      const found = []
      for (const path of paths) found.push([await look(path), await bind(path), await look(path), fs.readFileSync(path + '/app.log', 'utf8'), fs.readdirSync(path)])
      console.log(JSON.stringify(found))`,
      LAYOUTS.map(([, make]) => make(open())),
    )
    const expected = LAYOUTS.map(([what, , owner]) => {
      const once = [owner, owner]
      return [what, once, [owner, '666', 'hello'], once, 'a line\na line\n', ['app.log']]
    })
    assert.deepEqual(
      found.map((each, i) => [LAYOUTS[i]?.[0], ...each]),
      expected,
    )
  })

  it('leaves the files of root untouched while the owner of a directory swaps it and its files', async () => {
    const trap = new Trap()
    const { end } = await trap.exchange()
    const seen = await withoutLibc<{ done: number; refused: number }>(
      `
      const ACTS = [
        (opener, path) => fs.closeSync(opener.append(path, 0o640)),
        (opener, path) => fs.closeSync(opener.make(path, 0o644)),
        (opener, path) => opener.remove(path, inodeAt(path) ?? ''),
        (opener, path) => opener.replace(path, 'x', 0o644),
        (opener, path) => opener.makeDirectory(path, 0o750, { uid: 7, gid: 7 }),
        async (opener, path) => (await opener.bind(path, rights, listening)).server.close(),
      ]
      const seen = { done: 0, refused: 0 }
      const until = performance.now() + ${LASTS_MS}
      for (let i = 0; performance.now() < until || i < 36; i++)
        try {
          const name = ['there', 'new', 'fresh-' + i][i % 3]
          await ACTS[i % 6](new Opener(i % 4 < 2 ? APP : null), paths[0] + '/' + name)
          seen.done++
        } catch {
          seen.refused++
        }
      console.log(JSON.stringify(seen))`,
      [trap.run],
    )
    await end()
    assert.ok(seen.refused > 0, JSON.stringify(seen))
    trap.outside.assertUntouched('without libc')
  })
})

describe('a daemon that runs as root, with a path in a directory of another user', { skip }, () => {
  const OPTIONS: ReadonlyArray<readonly [string, (run: string) => Record<string, string | boolean>]> = [
    ['logto', run => ({ logto: `${run}/new` })],
    ['daemonize', run => ({ daemonize: `${run}/new` })],
    ['pidfile', run => ({ pidfile: `${run}/new`, vacuum: true })],
    ['safe-pidfile', run => ({ 'safe-pidfile': `${run}/new`, vacuum: true })],
    ['socket', run => ({ socket: `${run}/new`, vacuum: true })],
    ['spooler-control', run => ({ 'spooler-control': `${run}/new,role=viewer` })],
    ['master-fifo', run => ({ 'master-fifo': `${run}/new` })],
    ['stats', run => ({ stats: `${run}/new` })],
    ['stats-push', run => ({ 'stats-push': `file:path=${run}/there,freq=1` })],
    ['spooler-metrics', run => ({ 'spooler-metrics': `${run}/new` })],
    ['spooler-metrics-file', run => ({ 'spooler-metrics-file': `${run}/there` })],
  ]
  for (const [option, ini] of OPTIONS)
    it(`creates, changes and removes nothing behind a symbolic link, and logs the refusal: ${option}`, async () => {
      const trap = new Trap()
      trap.link()
      const spool = spoolDirectory()
      chmodSync(dirname(spool), 0o755)
      const daemon = await startDaemon({ spool, ini: ini(trap.run), isUnready: true })
      await until(
        'the daemon has ended, or has logged the refusal',
        () =>
          !daemon.isRunning || (/is running/.test(daemon.output) && /permission denied/i.test(daemon.output)),
      )
      if (daemon.isRunning) {
        trap.outside.assertUntouched(`${option}, while it runs`)
        daemon.child.kill('SIGTERM')
      }
      await daemon.code()
      assert.match(daemon.output, /permission denied.*users other than root can create names above it/i)
      trap.outside.assertUntouched(option)
    })

  it('keeps the old log open at a reload if its user has replaced the directory with a symbolic link', async () => {
    const trap = new Trap()
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    giveAway(spool)
    const log = join(trap.run, 'app.log')
    const ini = { uid: USER, gid: USER, 'master-as-root': true, logto: log }
    const daemon = await startDaemon({ spool, ini, isUnready: true })
    const text = () => (existsSync(log) ? readFileSync(log, 'utf8') : '')
    await until('the daemon runs', () => {
      if (!daemon.isRunning) throw new Error(`the daemon has ended: ${daemon.output}`)
      return /is running/.test(text())
    })
    renameSync(trap.run, join(trap.home, 'moved'))
    symlinkSync(trap.outside.path, trap.run)
    lchownSync(trap.run, USER, USER)
    daemon.child.kill('SIGHUP')
    const moved = join(trap.home, 'moved/app.log')
    await until('the daemon logs that the log cannot be reopened', () =>
      /the log goes on in the old file: .*permission denied/.test(readFileSync(moved, 'utf8')),
    )
    trap.outside.assertUntouched('a reopened log')
    daemon.child.kill('SIGTERM')
    await daemon.code()
    trap.outside.assertUntouched('a reopened log, after the end')
  })

  it('does not print the content of a locked pidfile that holds no pid', async () => {
    const trap = new Trap()
    const pidfile = join(trap.run, 'app.pid')
    file(pidfile, USER, 'root:$6$SECRETHASH:19000\n')
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    giveAway(spool)
    const hold = `import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(600)`
    const holder = new TestProcess(PYTHON, ['-c', hold, pidfile])
    await holder.waitFor('held')
    const daemon = await startDaemon({ spool, ini: { uid: USER, gid: USER, pidfile }, isUnready: true })
    assert.equal(await daemon.code(), 1)
    assert.match(daemon.output, /\[PIDFILE_HELD\] another spoold holds /)
    assert.doesNotMatch(daemon.output, /SECRET/)
  })
})

describe('a command of root, in a directory of another user', { skip }, () => {
  it('writes nothing through a symbolic link: token', async () => {
    const trap = new Trap()
    writeFileSync(join(trap.outside.path, 'authorized_keys'), '', { mode: 0o600 })
    const outside = statSync(join(trap.outside.path, 'authorized_keys'))
    trap.link()
    const { code, stderr } = await spoold([
      'token',
      '--name',
      'x',
      '--role',
      'viewer',
      join(trap.run, 'authorized_keys'),
    ])
    assert.notEqual(code, 0)
    assert.match(stderr, /permission denied/)
    assert.equal(statSync(join(trap.outside.path, 'authorized_keys')).ctimeMs, outside.ctimeMs)
  })

  it('stores through a symbolic link of that user only with --as: enqueue', async () => {
    const trap = new Trap()
    trap.link()
    const { code, stderr } = await spoold(['enqueue', '--spooler', trap.run, 'a=b'])
    assert.notEqual(code, 0)
    assert.match(stderr, /it is reached through a link of uid 65534; say for whom root acts, with --as USER/)
    trap.outside.assertUntouched('enqueue')
    const mine = directory(join(trap.home, 'mine'), USER)
    rmSync(trap.run)
    symlinkSync(mine, trap.run)
    lchownSync(trap.run, USER, USER)
    const as = await spoold(['enqueue', '--spooler', trap.run, '--as', String(USER), 'a=b'])
    assert.equal(as.code, 0, as.stderr)
    const [name = ''] = leftIn(mine)
    assert.equal(statSync(join(mine, name)).uid, USER)
  })

  it('stores as the owner of the spool, even if the first spool of the ini is root’s: enqueue', async () => {
    const home = open()
    const [mine, theirs] = [directory(join(home, 'mine'), 0), directory(join(home, 'theirs'), USER)]
    const ini = join(home, 'app.ini')
    writeIni(ini, { spooler: mine, 'spooler-external': theirs })
    const stored = await spoold(['enqueue', '--ini', ini, `spooler=${theirs}`, 'a=b'])
    assert.equal(stored.code, 0, stored.stderr)
    assert.deepEqual(
      leftIn(theirs).map(name => statSync(join(theirs, name)).uid),
      [USER],
    )
  })
})

describe('a file that is watched for touches', { skip: skipUnless('root') }, () => {
  it('is still watched when it becomes a symbolic link to a large tree, but the tree is not', async () => {
    const home = open()
    const tree = join(home, 'tree')
    for (let i = 0; i < 40; i++)
      for (let j = 0; j < 25; j++) mkdirSync(join(tree, `${i}/${j}`), { recursive: true })
    const path = file(join(home, 'touch'), USER)
    const touched: string[] = []
    const before = watched()
    const watch = watchTouches([path], each => touched.push(each))
    try {
      let text = ''
      await until('the first touch is reported', () => {
        text += 'x'
        writeFileSync(path, text) // the watch may begin after the first of these writes
        return touched.length > 0
      })
      const steps = [
        () => {
          rmSync(path)
          symlinkSync(tree, path)
        },
        () => rmSync(join(tree, '0'), { recursive: true }),
      ]
      for (const [i, step] of steps.entries()) {
        const known = touched.length
        step()
        await until(`step ${i} is reported`, () => touched.length > known)
      }
      assert.ok(watched() - before < 10, `${watched() - before} watches`)
    } finally {
      watch.close()
    }
  })
})

/** How many files and directories inotify watches for this process. */
function watched(): number {
  const infos = readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      if (readlinkSync(`/proc/self/fd/${fd}`) !== 'anon_inode:inotify') return []
      return readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8').split('\n')
    } catch {
      return []
    }
  })
  return infos.filter(line => line.startsWith('inotify wd:')).length
}
