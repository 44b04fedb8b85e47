import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { drop } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { patience } from '../helpers/until.js'
import { startUwsgi, UWSGIS } from '../helpers/uwsgi.js'
import { BIN, ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'

interface Diagnosis {
  readonly level: string
  readonly topic: string
  readonly about: string
  readonly text: string
  readonly fix?: string
}

interface Visit {
  readonly code: number | null
  readonly all: Diagnosis[]
  /** `level topic: text` of each diagnosis that is not ok, except those that every test has. */
  readonly complaints: string[]
}

/** @param around a shell line that ends in "$@" */
function doctor(ini: string, around = 'exec "$@"', env: NodeJS.ProcessEnv = {}): Visit {
  const { status, stdout, stderr } = spawnSync(
    'sh',
    ['-c', around, 'sh', process.execPath, BIN, 'doctor', '--json', ini],
    { encoding: 'utf8', cwd: '/', env: { ...process.env, ...env }, timeout: 30_000 * patience() },
  )
  assert.equal(stderr, '')
  const all: Diagnosis[] = stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))
  const complaints = all
    .filter(each => each.level !== 'ok' && each.topic !== 'user' && !isInMemory(each))
    .map(({ level, topic, text }) => `${level} ${topic}: ${text}`)
  return { code: status, all, complaints }
}

/** True if the diagnosis says that the spool is in memory, as the directory of tests is on many machines. */
const isInMemory = ({ text }: Diagnosis) => text.startsWith('it is in memory')

/** Asserts that the only complaint matches, runs its fix, and asserts that no complaint is left. */
function complainsAndIsFixed(ini: string, pattern: RegExp, code: number): void {
  const before = doctor(ini)
  assert.equal(before.complaints.length, 1, before.complaints.join('\n'))
  assert.match(before.complaints[0] ?? '', pattern)
  assert.equal(before.code, code)
  const [complaint] = before.all.filter(({ level, topic, text }) =>
    pattern.test(`${level} ${topic}: ${text}`),
  )
  const fix = complaint?.fix ?? 'false'
  execFileSync('sh', ['-c', fix.replace(/^spoold/, `${process.execPath} ${BIN}`)])
  assert.deepEqual(doctor(ini).complaints, [])
  assert.equal(doctor(ini).code, 0)
}

/** Writes a handler and an ini beside the spool. @returns the ini's path */
function install(
  spool: string,
  settings: Parameters<typeof writeIni>[1] = {},
  home = dirname(spool),
): string {
  const handler = join(home, 'handler.mjs')
  if (!existsSync(handler)) writeFileSync(handler, 'export default () => -2')
  const ini = join(home, 'app.ini')
  writeIni(ini, { spooler: spool, 'spooler-import': handler, ...settings })
  return ini
}

const NOBODY = { uid: 65_534, gid: 65_534 }
const only = (pattern: RegExp, { complaints }: Visit) => {
  assert.equal(complaints.length, 1, complaints.join('\n'))
  assert.match(complaints[0] ?? '', pattern)
}

describe('spoold doctor', () => {
  it('has no complaint about a good installation, lists each topic that it examined, and changes nothing', () => {
    const spool = spoolDirectory(tmpdir())
    const ini = install(spool)
    const picture = () => readdirSync(dirname(spool), { recursive: true })
    const before = picture()
    const { code, all, complaints } = doctor(ini)
    assert.deepEqual([code, complaints], [0, []])
    for (const topic of [
      'node',
      'handlers',
      'spool',
      'file-system',
      'room',
      'locks',
      'clock',
      'events',
      'neighbours',
      'limits',
    ])
      assert.ok(
        all.some(each => each.topic === topic && (each.level === 'ok' || isInMemory(each))),
        topic,
      )
    assert.deepEqual(picture(), before)
  })

  it('prints text for people without --json', () => {
    const ini = install(join(workspace(), 'none'))
    const { stdout, status } = spawnSync(process.execPath, [BIN, 'doctor', ini], { encoding: 'utf8' })
    assert.match(stdout, /^ok {6}node: .*: Node \d/)
    assert.match(
      stdout,
      /\nnote {4}spool: .*none: it does not exist yet; the daemon creates it\n {8}to fix it: install -d /,
    )
    assert.match(stdout, /app\.ini: 0 errors, 0 warnings, \d notes?\n$/)
    assert.equal(status, 0)
  })

  it('reports the errors and warnings of the configuration, and goes on', () => {
    const spool = spoolDirectory()
    const ini = install(spool, { 'spooler-processes': 'many', colour: 'red' })
    const { code, complaints, all } = doctor(ini)
    assert.equal(code, 1)
    assert.match(
      complaints[0] ?? '',
      /^error configuration: .*app\.ini:4: error: spooler-processes: expected/,
    )
    assert.match(
      complaints[1] ?? '',
      /^warning configuration: .*app\.ini:5: warning: unknown option "colour"/,
    )
    assert.ok(all.some(({ topic }) => topic === 'locks'))
  })
})

describe('spoold doctor, as the user of the daemon', { skip: skipUnless('root') }, () => {
  it('complains about a spool that belongs to somebody else', () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    complainsAndIsFixed(
      install(spool, NOBODY),
      /^error spool: it cannot be entered by uid 65534 \(owner 0:0, mode 0750\)/,
      1,
    )
  })

  it('complains about a state directory that belongs to somebody else', () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    const ini = install(spool, NOBODY)
    execFileSync('chown', ['65534:65534', spool])
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    complainsAndIsFixed(ini, /^error spool: .*\.spoold cannot be entered by uid 65534/, 1)
  })

  it('warns about a sticky spool that belongs to somebody else', () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    execFileSync('chown', [':65534', spool])
    chmodSync(spool, 0o3770)
    const ini = install(spool, NOBODY)
    complainsAndIsFixed(
      ini,
      /^warning spool: its mode is 3770, and it belongs to uid 0, so tasks of other users stay when uid 65534 has run them/,
      0,
    )
  })

  it('complains about a spool below a directory that this user cannot enter', () => {
    const spool = spoolDirectory()
    const ini = install(spool, NOBODY)
    const { code, complaints, all } = doctor(ini)
    assert.equal(code, 1)
    assert.equal(complaints.length, 2, 'the spool and the handler are both below it')
    for (const complaint of complaints) assert.match(complaint, /cannot be entered by uid 65534/)
    execFileSync('sh', ['-c', all.find(({ level }) => level === 'error')?.fix ?? 'false'])
    execFileSync('chown', ['65534:65534', spool])
    assert.deepEqual(doctor(ini).complaints, [])
  })

  it('complains about handlers that this user cannot read', () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    execFileSync('chown', ['65534:65534', spool])
    const ini = install(spool, NOBODY)
    chmodSync(join(dirname(spool), 'handler.mjs'), 0o600)
    complainsAndIsFixed(ini, /^error handlers: it cannot be read by uid 65534: EACCES/, 1)
  })

  it('names a configured user that does not exist', () => {
    const spool = spoolDirectory()
    const { code, complaints } = doctor(install(spool, { uid: 'nobody-at-all' }))
    assert.equal(code, 1)
    assert.ok(complaints.some(each => /uid: user nobody-at-all not found/.test(each)))
  })
})

describe('spoold doctor, on the spool directory', () => {
  it('reports an error when it is a file', () => {
    const spool = join(workspace(), 'spool')
    writeFileSync(spool, '')
    const ini = install(spool)
    const { code, complaints, all } = doctor(ini)
    assert.equal(code, 1)
    assert.ok(complaints.includes('error spool: it is not a directory'))
    execFileSync('sh', ['-c', all.find(({ topic }) => topic === 'spool')?.fix ?? 'false'])
    assert.deepEqual(doctor(ini).complaints, [])
  })

  for (const [what, prepare, pattern, code] of [
    [
      'paused',
      spool => execFileSync(process.execPath, [BIN, 'pause', spool]),
      /^warning spool: paused: all tasks$/,
      0,
    ],
    [
      'paused by a damaged file',
      spool => mkdirSync(join(spool, '.spoold/paused'), { recursive: true, mode: 0o700 }),
      /^error spool: no task starts, because \S+paused is a directory$/,
      1,
    ],
  ] as ReadonlyArray<readonly [string, (spool: string) => unknown, RegExp, number]>)
    it(`complains when it is ${what}`, () => {
      const spool = spoolDirectory()
      const ini = install(spool)
      prepare(spool)
      const { complaints, all, code: status } = doctor(ini)
      assert.equal(complaints.length, 1, complaints.join('\n'))
      assert.match(complaints[0] ?? '', pattern)
      assert.equal(status, code)
      const fix = all.find(({ text }) => complaints[0]?.endsWith(text))?.fix ?? ''
      assert.match(fix, /^spoold resume --all /)
      execFileSync('sh', ['-c', fix.replace('spoold', `${process.execPath} ${BIN}`)])
      assert.deepEqual(doctor(ini).complaints, [])
    })

  it('warns when everybody may write in it', () => {
    const spool = spoolDirectory()
    chmodSync(spool, 0o777)
    complainsAndIsFixed(install(spool), /^warning spool: its mode is 0777: all users/, 0)
  })
})

describe('spoold doctor, on the file system', { skip: skipUnless('root', 'mount') }, () => {
  /** Mounts a small file system, makes a spool on it, and writes the ini of that spool elsewhere. */
  function installOn(options: string): { disk: string; ini: string } {
    const disk = smallDisk(options)
    mkdirSync(join(disk, 'spool'))
    return { disk, ini: install(join(disk, 'spool'), {}, workspace()) }
  }

  it('warns when it is in memory', () => {
    const { all } = doctor(install(spoolDirectory()))
    const { ini } = installOn('size=1m')
    for (const diagnoses of [all, doctor(ini).all].slice(lstatSync('/dev/shm').isDirectory() ? 0 : 1))
      assert.ok(
        diagnoses.some(
          ({ level, text }) => level === 'warning' && /^it is in memory \(tmpfs on \//.test(text),
        ),
      )
  })

  it('reports an error when it is full', () => {
    const { disk, ini } = installOn('size=64k')
    spawnSync('dd', ['if=/dev/zero', `of=${disk}/ballast`, 'bs=1k'])
    const { code, complaints, all } = doctor(ini)
    assert.equal(code, 1)
    assert.match(complaints[0] ?? '', /^error room: 0 MiB free/)
    assert.match(all.find(({ topic }) => topic === 'room')?.fix ?? '', /; df \//)
    rmSync(join(disk, 'ballast'))
    const after = doctor(ini)
    assert.deepEqual([after.code, after.complaints], [0, []])
  })

  it('reports an error when it has no inodes left', () => {
    const { disk, ini } = installOn('size=1m,nr_inodes=20')
    for (let n = 0; n < 20; n++) spawnSync('touch', [join(disk, `file-${n}`)])
    const { code, complaints, all } = doctor(ini)
    assert.equal(code, 1)
    assert.match(complaints[0] ?? '', /^error room: .* 0 inodes free$/)
    assert.match(all.find(({ topic }) => topic === 'room')?.fix ?? '', /; df -i \//)
  })

  it('warns when it is nearly full', () => {
    const { disk, ini } = installOn('size=1m')
    spawnSync('dd', ['if=/dev/zero', `of=${disk}/ballast`, 'bs=1k', 'count=1000'])
    const visit = doctor(ini)
    only(/^warning room: 0 MiB free/, visit)
    assert.equal(visit.code, 0)
  })

  it('reports an error when it is read-only', () => {
    const { disk, ini } = installOn('size=1m')
    execFileSync('mount', ['-o', 'remount,ro', disk])
    complainsAndIsFixed(ini, /^error spool: it cannot be written to by uid 0 .*: read-only$/, 1)
  })

  it('has no complaint when it is mounted with noatime', () => {
    assert.deepEqual(doctor(installOn('size=1m,noatime').ini).complaints, [])
  })

  it('warns when it is the layer of a container', () => {
    const disk = smallDisk('size=1m')
    for (const name of ['lower', 'upper', 'work', 'merged']) mkdirSync(join(disk, name))
    const ini = install(join(disk, 'merged', 'spool'), {}, workspace())
    const layers = `lowerdir=${disk}/lower,upperdir=${disk}/upper,workdir=${disk}/work`
    const visit = doctor(
      ini,
      `exec unshare -m sh -c 'mount -t overlay overlay -o ${layers} ${disk}/merged && mkdir ${disk}/merged/spool && exec "$@"' sh "$@"`,
    )
    only(/^warning file-system: it is in a container's own layer \(overlay on \//, visit)
  })
})

describe('spoold doctor, on locks, clock and events', () => {
  it('warns without koffi, and fails if spooler-lock = ofd', { skip: skipUnless('root', 'mount') }, () => {
    const library = join(ROOT, 'node_modules/koffi')
    const without = `exec unshare -m sh -c 'mount -t tmpfs tmpfs ${library} && exec "$@"' sh "$@"`
    const spool = spoolDirectory()
    const auto = doctor(install(spool), without)
    only(/^warning locks: record locks do not work \(.*\): claims are leases, which uWSGI does not see/, auto)
    assert.equal(auto.code, 0)
    const ofd = doctor(install(spool, { 'spooler-lock': 'ofd' }), without)
    only(/^error locks: spooler-lock = ofd does not work in /, ofd)
    assert.equal(ofd.code, 1)
  })

  for (const [what, ms, pattern] of [
    ['ahead of', -60_000, /^warning clock: .* (60|59)\.\d s ahead of ours: tasks are late by that$/],
    ['behind', 60_000, /^warning clock: .* (60|59)\.\d s behind ours: tasks are early by that$/],
  ] as const)
    it(`warns when the clock of the file system is ${what} ours`, () => {
      const shift = `data:text/javascript,const now = Date.now; Date.now = () => now() + ${ms}`
      const visit = doctor(install(spoolDirectory()), undefined, {
        NODE_OPTIONS: `--import=${shift.replaceAll(' ', '%20')}`,
      })
      only(pattern, visit)
      assert.equal(visit.code, 0)
    })

  it('warns if inotify cannot be used', { skip: skipUnless('root') }, () => {
    const none = `exec unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"' sh "$@"`
    const { code, complaints, all } = doctor(install(spoolDirectory()), none)
    assert.equal(code, 0)
    assert.match(
      complaints[0] ?? '',
      /^warning events: no event of a new file \(EMFILE.*found every spooler-frequency$/,
    )
    assert.match(complaints[1] ?? '', /^warning limits: 1 needed, 0 of 0 in use/)
    for (const { level, fix } of all)
      if (level === 'warning' && fix?.startsWith('sysctl')) assert.match(fix, /max_user_instances=\d+$/)
  })

  it('notes spooler-watch = off, and has no complaint about spooler-watch = poll', () => {
    const spool = spoolDirectory()
    only(/^note events: spooler-watch = off/, doctor(install(spool, { 'spooler-watch': 'off' })))
    assert.deepEqual(doctor(install(spool, { 'spooler-watch': 'poll' })).complaints, [])
  })
})

describe('spoold doctor, on limits', () => {
  it('warns when fewer open files are allowed than the connections and the concurrency need', () => {
    const spool = spoolDirectory()
    const few = 'ulimit -n 80 && exec "$@"'
    const socket = join(dirname(spool), 's')
    const visit = doctor(install(spool, { socket }), few)
    only(/^warning limits: 1366 needed, 80 allowed to this process: not all of 1024 connections/, visit)
    assert.deepEqual(doctor(install(spool, { socket, 'socket-max-connections': 50 }), few).complaints, [])
    only(
      /^warning limits: 464 needed, 80 allowed to this process$/,
      doctor(install(spool, { 'spooler-concurrency': 200 }), few),
    )
  })

  it('reports a socket that only an attempt shows cannot be bound, and leaves no socket behind', {
    skip: skipUnless('strace'),
  }, () => {
    const spool = spoolDirectory()
    const stats = join(dirname(spool), 's') // root opens `socket` itself
    const refused = `exec strace -f -o /dev/null -e trace=bind -e inject=bind:error=EPERM "$@"`
    const { complaints } = doctor(install(spool, { stats }), refused)
    assert.deepEqual(
      complaints.map(text => text.replace(/uid \d+/, 'uid')),
      [`error socket: uid cannot bind it: EPERM: operation not permitted, bind '${stats}'`],
    )
    const before = readdirSync(dirname(spool))
    assert.deepEqual(doctor(install(spool, { stats })).complaints, [])
    assert.deepEqual(readdirSync(dirname(spool)), before)
  })

  it('warns if the kernel allows a shorter queue than listen', { skip: skipUnless('root', 'mount') }, () => {
    const spool = spoolDirectory()
    const short = `exec unshare -n sh -c 'echo 16 > /proc/sys/net/core/somaxconn && exec "$@"' sh "$@"`
    const socket = join(dirname(spool), 's')
    only(
      /^warning socket: 4096 connections may wait to be accepted, and the kernel allows 16$/,
      doctor(install(spool, { socket }), short),
    )
    assert.deepEqual(doctor(install(spool, { socket, listen: 16 }), short).complaints, [])
    assert.deepEqual(doctor(install(spool), short).complaints, [])
  })
})

describe('spoold doctor, on tasks that are not run', () => {
  it('warns about tasks in priority directories unless spooler-ordered is on', () => {
    const spool = spoolDirectory()
    for (const priority of ['5', '7', '9']) mkdirSync(join(spool, priority))
    for (const name of ['a', '5/a', '5/b', '7/a']) drop(spool, name)
    const { code, complaints } = doctor(install(spool))
    assert.equal(code, 0)
    assert.deepEqual(complaints, [
      'warning spool: 2 tasks are not run in 5/: priority directories need spooler-ordered = true',
      'warning spool: 1 task is not run in 7/: priority directories need spooler-ordered = true',
    ])
    assert.deepEqual(doctor(install(spool, { 'spooler-ordered': true })).complaints, [])
  })
})

describe('spoold doctor, on who works on the spool', () => {
  it('names another spoold and counts its workers', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool })
    const { code, all } = doctor(daemon.iniFile)
    assert.equal(code, 0)
    const texts = all.flatMap(({ topic, text }) => (topic === 'neighbours' ? [text] : []))
    assert.equal(texts.length, 1, 'its workers are not listed as others')
    assert.match(texts[0] ?? '', new RegExp(`^pid ${daemon.pid} with 1 worker uses it `))
  })

  for (const uwsgi of UWSGIS)
    it(`reports ${uwsgi.title}, which sees no leases`, { skip: skipUnless(uwsgi.needs) }, async () => {
      const spool = spoolDirectory()
      const peer = startUwsgi({ uwsgi, spool, handler: 'uwsgi.spooler = lambda env: -2' })
      await peer.waitFor('spooler')
      const ini = install(spool, { 'spooler-lock': 'lockfile' })
      const deadline = Date.now() + 10_000
      while (doctor(ini).code === 0 && Date.now() < deadline);
      const { code, complaints } = doctor(ini)
      assert.equal(code, 1)
      assert.ok(
        complaints.some(each =>
          /^error neighbours: pid \d+ uses it \(\S*uwsgi .*does not see leases/.test(each),
        ),
        complaints.join('\n'),
      )
      assert.equal(doctor(install(spool)).code, 0)
    })
})
