import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { fromThrown } from '#src/base/task/answer.js'
import { IGNORE, OK, RELEASE, RETRY } from '#src/base/task/outcome.js'
import type { Claim } from '#src/engines/claims.js'
import type { Claims } from '#src/engines/spool/claims/claims.js'
import { probeSpool } from '#src/engines/spool/probe.js'
import { DONE, RECORDED, STARTED } from '#src/engines/spool/state-byte.js'
import { toDictionary, toPairs } from '#src/formats/protocol/vars.js'
import { systemCalls } from '#src/system/libc.js'
import {
  beginOf as beginRef,
  crash as crashRef,
  type EngineSettings,
  openEngine,
  refusalOf as refuseRef,
} from '../../helpers/engine.js'
import { drop, leftIn, packet } from '../../helpers/files.js'
import { CHANGING_CALLS, errnoError, hookFs } from '../../helpers/fs-hooks.js'
import { skipUnless } from '../../helpers/requires.js'
import { smallDisk } from '../../helpers/small-disk.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const LONG_AGO = 1_000_000_000

const beginOf = (engine: Claims, ref = NAME) => beginRef(engine, ref)
const refusalOf = (engine: Claims, ref = NAME) => refuseRef(engine, ref)
const crash = (spool: string) => crashRef(spool, NAME)
const stateOf = (spool: string, ref = NAME) => readFileSync(join(spool, ref))[3]
const textOf = (claim: Claim) => ({ ...toDictionary(claim.vars) })

/** Opens a new engine on the same directory, which sees what another process or the next daemon would see. */
async function afterCrash(spool: string, settings: EngineSettings = {}) {
  return openEngine(spool, settings)
}

describe('a claim', () => {
  it('brings the packet and the body, and its run is marked in the file when it begins', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, packet({ foo: 'bar', at: '5' }, 'BODY'))
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    assert.deepEqual(textOf(claim), { foo: 'bar', at: '5' })
    assert.equal(claim.readBody()?.toString(), 'BODY')
    assert.equal(claim.attempt, 1)
    assert.equal(stateOf(spool), STARTED)
    assert.deepEqual(engine.settle(claim, OK, 3), {
      ref: NAME,
      kind: 'ok',
      ranMs: 3,
      atMs: undefined,
      detail: undefined,
      reason: undefined,
    })
    assert.deepEqual(leftIn(spool), [])
  })

  it('excludes others, even other descriptors of the same process', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const [one, two] = [await openEngine(spool), await openEngine(spool)]
    const claim = beginOf(one)
    assert.equal(refusalOf(two).kind, 'locked')
    // closing some other descriptor of the file would drop a POSIX lock
    readFileSync(join(spool, NAME))
    assert.equal(refusalOf(two).kind, 'locked')
    one.settle(claim, RELEASE, 0)
    two.settle(beginOf(two), OK, 0)
  })

  it('reads a large body only when it is asked for', async () => {
    const spool = spoolDirectory()
    const body = Buffer.alloc(3 * 1024 * 1024, 'b')
    drop(spool, NAME, packet({ a: 'b' }, body))
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    assert.equal(claim.body, undefined)
    assert.equal(claim.readBody()?.equals(body), true)
    engine.settle(claim, OK, 0)
  })

  it('gives no body once the run has ended, because its descriptor may be another file by then', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, packet({ a: 'b' }, Buffer.alloc(2 * 1024 * 1024)))
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    engine.settle(claim, OK, 0)
    assert.throws(() => claim.readBody(), { code: 'CLAIM_LOST' })
  })

  it('of a hard link claims the file under all its names, and removes that link only', async () => {
    const spool = spoolDirectory()
    linkSync(drop(spool, NAME), join(spool, 'uwsgi_spoolfile_on_y'))
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    assert.equal(refusalOf(engine, 'uwsgi_spoolfile_on_y').kind, 'locked')
    engine.settle(claim, OK, 0)
    assert.deepEqual(leftIn(spool), ['uwsgi_spoolfile_on_y'])
  })

  it('works for names that are not UTF-8', async () => {
    const spool = spoolDirectory()
    const bytes = Buffer.concat([Buffer.from(`${spool}/uwsgi_spoolfile_on_`), Buffer.from([0xff, 0xe9])])
    writeFileSync(bytes, packet({ odd: 'name' }))
    const engine = await openEngine(spool)
    const claim = beginOf(engine, 'uwsgi_spoolfile_on_\xff\xe9')
    assert.deepEqual(textOf(claim), { odd: 'name' })
    engine.settle(claim, OK, 0)
    assert.equal(existsSync(bytes), false)
  })
})

describe('a refused claim', () => {
  const table: Array<
    [what: string, kind: string, make: (spool: string, path: string) => void, detail?: RegExp]
  > = [
    ['nothing there', 'gone', () => {}],
    ['an empty file', 'incomplete', (_, path) => writeFileSync(path, ''), /0 of the header's 4 bytes/],
    [
      'half a header',
      'incomplete',
      (_, path) => writeFileSync(path, Buffer.from([17, 1])),
      /2 of the header's 4/,
    ],
    [
      'a block that is not all there',
      'incomplete',
      (_, path) => writeFileSync(path, packet({ a: 'bcd' }).subarray(0, 9)),
      /announces 8 bytes, 5 are there/,
    ],
    [
      'another modifier',
      'malformed',
      (_, path) => writeFileSync(path, Buffer.from([0, 0, 0, 0])),
      /modifier1 is 0, expected 17/,
    ],
    [
      'a block that is no list of pairs',
      'malformed',
      (_, path) => writeFileSync(path, Buffer.from([17, 3, 0, 0, 0, 0, 9])),
      /a key is empty/,
    ],
    ['a future mtime', 'later', spool => drop(spool, NAME, packet({ a: 'b' }), 4_000_000_000)],
    ['a future at', 'later', spool => drop(spool, NAME, packet({ at: '4000000000.5' }), LONG_AGO)],
    [
      'a symbolic link',
      'unreadable',
      (spool, path) => symlinkSync(drop(spool, 'elsewhere'), path),
      /symbolic link/,
    ],
    ['a FIFO', 'unreadable', (_, path) => execFileSync('mkfifo', [path]), /not a regular file|FIFO/],
    ['a directory', 'gone', (_, path) => mkdirSync(path)],
  ]
  for (const [what, kind, make, detail] of table)
    it(`leaves everything as it is, and reports ${what} as ${kind}`, async () => {
      const spool = spoolDirectory()
      make(spool, join(spool, NAME))
      const before = leftIn(spool).map(name => [
        name,
        statSync(join(spool, name)).isFile() ? readFileSync(join(spool, name), 'hex') : '',
      ])
      const refusal = refusalOf(await openEngine(spool))
      assert.equal(refusal.kind, kind)
      assert.match(refusal.detail ?? '', detail ?? /^/)
      assert.deepEqual(
        leftIn(spool).map(name => [
          name,
          statSync(join(spool, name)).isFile() ? readFileSync(join(spool, name), 'hex') : '',
        ]),
        before,
      )
    })

  it('reports the later of mtime and `at` as the due time, and ignores an `at` that is no valid time', async () => {
    const spool = spoolDirectory()
    const engine = await openEngine(spool)
    const dueOf = (at: string, mtime: number) => {
      drop(spool, NAME, packet({ at }), mtime)
      return refusalOf(engine).atMs
    }
    assert.equal(dueOf('4000000001', 4_000_000_000), 4_000_000_000_000) // mtime alone: the packet is not even read
    assert.equal(dueOf('4000000001.5', LONG_AGO), 4_000_000_001_500)
    for (const at of ['NaN', '-5', '1e99', 'abc', '', ' 4000000000']) {
      drop(spool, NAME, packet({ at }), LONG_AGO)
      beginOf(engine)
    }
  })

  it('reports a file as unreadable if its user may not write the file', { skip: skipUnless('root') }, () => {
    const spool = spoolDirectory()
    chmodSync(drop(spool, NAME), 0o444)
    chmodSync(join(spool, '..'), 0o755)
    chmodSync(spool, 0o777)
    const module = new URL('../../../src/engines/spool/claims/claim.js', import.meta.url).href
    const holder = new URL('../../../src/engines/spool/priority-directory.js', import.meta.url).href
    const script = `process.setgid(65534); process.setuid(65534);
      const { claimFile } = await import(${JSON.stringify(module)});
      const { TaskDirectories } = await import(${JSON.stringify(holder)});
      console.log(JSON.stringify(claimFile(${JSON.stringify(NAME)}, new TaskDirectories(${JSON.stringify(spool)}), { skewMs: 50, isRemote: false, tryLock: () => true, unlock() {} }, Date.now())))`
    const refusal = JSON.parse(
      execFileSync(process.execPath, ['--input-type=module', '-e', script]).toString(),
    )
    assert.equal(refusal.kind, 'unreadable')
    assert.match(refusal.detail, /EACCES/)
  })
})

describe('a file that leaves its place between open and lock', () => {
  /** Claims as a slow worker that opened the file before another one was done with it; `act` is what the other one does. */
  async function claimAfter(spool: string, act: (path: string, fd: number) => void, isRemote = false) {
    const path = join(spool, NAME)
    const { claimFile } = await import('#src/engines/spool/claims/claim.js')
    const { TaskDirectories } = await import('#src/engines/spool/priority-directory.js')
    const tryLock = (fd: number) => {
      act(path, fd)
      return true
    }
    const locker = {
      kind: 'ofd' as const,
      skewMs: 50,
      isRemote,
      tryLock,
      holds: () => true,
      unlock() {},
      unshare() {},
    }
    return claimFile(NAME, new TaskDirectories(spool), locker, Date.now(), () => assert.fail())
  }

  const OTHERS: Readonly<Record<string, (path: string) => void>> = {
    'is removed': path => unlinkSync(path),
    'is buried, or moved': path => renameSync(path, `${path}.elsewhere`),
    'is replaced': path => {
      drop(dirname(path), NAME, packet({ a: 'new' }))
    },
    'is done, and has another hard link': path => {
      linkSync(path, `${path}.backup`)
      unlinkSync(path)
    },
  }
  for (const [what, act] of Object.entries(OTHERS))
    it(`is reported as gone when it ${what}`, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME, undefined, LONG_AGO)
      assert.deepEqual(await claimAfter(spool, act), { kind: 'gone' })
    })

  for (const [what, act] of Object.entries(OTHERS))
    it(`is reported as gone when it ${what}, even if the kernel still has its old status, as over NFS`, async t => {
      const spool = spoolDirectory()
      drop(spool, NAME, undefined, LONG_AGO)
      const calls = systemCalls()
      const status = calls.status.bind(calls)
      const claim = claimAfter(
        spool,
        (path, opened) => {
          const remembered = status(opened)
          act(path)
          t.mock.method(calls, 'status', (fd: number) => (fd === opened ? remembered : status(fd)))
          t.mock.method(calls, 'statusAt', () => remembered)
        },
        true,
      )
      assert.deepEqual(await claim, { kind: 'gone' })
    })

  it('is reported as gone even if it has had other links for a long time', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, undefined, LONG_AGO)
    linkSync(path, join(spool, '.backup'))
    linkSync(path, join(spool, '.second-backup'))
    // as if the removal of the task's own name had been long ago
    const unhook = hookFs(['fstatSync'], (_name, _args, proceed) =>
      Object.assign(proceed() as object, { ctimeMs: 0 }),
    )
    try {
      assert.deepEqual(await claimAfter(spool, unlinkSync), { kind: 'gone' })
    } finally {
      unhook()
    }
  })

  it('is reported as gone even where file times are whole seconds', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, undefined, LONG_AGO)
    const unhook = hookFs(['fstatSync'], (_name, _args, proceed) => {
      const stats = proceed() as { ctimeMs: number | bigint }
      if (typeof stats.ctimeMs !== 'number') return stats
      return Object.assign(stats, { ctimeMs: Math.floor(stats.ctimeMs / 1000) * 1000 })
    })
    try {
      const moved = await claimAfter(spool, path => renameSync(path, `${path}.elsewhere`))
      assert.deepEqual(moved, { kind: 'gone' })
    } finally {
      unhook()
    }
  })
})

describe('settling', () => {
  it('SPOOL_RETRY keeps the file, with the time of its next run as mtime, and a record', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    const before = Date.now()
    const report = engine.settle(beginOf(engine), RETRY, 0)
    assert.equal(report.kind, 'retry')
    const mtimeMs = statSync(join(spool, NAME)).mtimeMs
    assert.ok(mtimeMs >= before + 30_000 - 2 && mtimeMs <= Date.now() + 30_000)
    assert.equal(stateOf(spool), RECORDED)
    assert.equal(refusalOf(engine).kind, 'later')
    utimesSync(join(spool, NAME), LONG_AGO, LONG_AGO)
    const again = beginOf(await openEngine(spool))
    assert.equal(again.attempt, 2)
  })

  it('an error keeps the file, too, and the record keeps the stack', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    engine.settle(beginOf(engine), fromThrown(new Error('boom')), 0)
    const record = JSON.parse(readFileSync(join(spool, '.spoold/records', `${NAME}.json`), 'utf8'))
    assert.match(record.lastError, /^Error: boom\n {4}at /)
    assert.deepEqual([record.attempts, record.crashes], [1, 0])
  })

  it('SPOOL_OK after failures removes the record', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '7'))
    drop(spool, `7/${NAME}`)
    const engine = await openEngine(spool)
    engine.settle(beginOf(engine, `7/${NAME}`), RETRY, 0)
    const record = join(spool, '.spoold/records/7', `${NAME}.json`)
    assert.ok(existsSync(record))
    utimesSync(join(spool, '7', NAME), LONG_AGO, LONG_AGO)
    engine.settle(beginOf(engine, `7/${NAME}`), OK, 0)
    assert.ok(!existsSync(record))
  })

  for (const outcome of [IGNORE, RELEASE])
    it(`${outcome.kind} leaves the file byte for byte, with its mtime`, async () => {
      const spool = spoolDirectory()
      const path = drop(spool, NAME, packet({ a: 'b' }, 'body'), LONG_AGO)
      const bytes = readFileSync(path, 'hex')
      const engine = await openEngine(spool)
      engine.settle(beginOf(engine), outcome, 0)
      assert.equal(readFileSync(path, 'hex'), bytes)
      assert.equal(statSync(path).mtimeMs, LONG_AGO * 1000)
    })

  it('SPOOL_OK is reported even if somebody removed the file by hand during its run', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    unlinkSync(path)
    assert.equal(engine.settle(claim, OK, 0).kind, 'ok')
  })

  it('a task that ran to SPOOL_OK but cannot be removed does not run again, and is removed once that works', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    const [path, aside] = [join(spool, NAME), join(spool, '.aside')]
    renameSync(path, aside)
    mkdirSync(path) // unlink now fails, also for root
    const report = engine.settle(claim, OK, 0)
    assert.equal(report.kind, 'unsettled')
    execFileSync('rmdir', [path])
    renameSync(aside, path)
    assert.equal((stateOf(spool) ?? 0) & DONE, DONE)
    assert.equal(refusalOf(engine).kind, 'gone')
    assert.deepEqual(leftIn(spool), [])
  })
})

describe('a run that began and never ended', () => {
  it('counts as a crash, runs again at once the first time, and then backs off', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const crashing = await openEngine(spool)
    beginOf(crashing) // its process dies, so the lock falls
    crash(spool)
    const second = beginOf(await afterCrash(spool))
    assert.equal(second.attempt, 2)
    assert.deepEqual([second.record?.crashes, stateOf(spool)], [1, STARTED | RECORDED])
    crash(spool)
    const before = Date.now()
    const refusal = refusalOf(await afterCrash(spool))
    assert.equal(refusal.kind, 'later')
    assert.ok((refusal.atMs ?? 0) >= before + 1000 && (refusal.atMs ?? 0) <= Date.now() + 1000)
  })

  it('is no crash if the master says that the run was blameless', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    beginOf(await openEngine(spool))
    crash(spool)
    const claim = (await afterCrash(spool)).claim(NAME, { kind: 'blameless' })
    assert.ok(!('kind' in claim))
    assert.deepEqual([claim.attempt, claim.record], [1, undefined])
  })
})

describe('lease files, where record locks do not work', () => {
  it('exclude others, and are gone after the run', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const [one, two] = [
      await openEngine(spool, { locks: 'lockfile' }),
      await openEngine(spool, { locks: 'lockfile' }),
    ]
    const claim = beginOf(one)
    assert.equal(refusalOf(two).kind, 'locked')
    one.settle(claim, OK, 0)
    assert.deepEqual(leftIn(join(spool, '.spoold/locks')), [])
    assert.deepEqual(leftIn(spool), [])
  })
})

describe('the probe', () => {
  it('finds record locks that work, and leaves nothing behind', async () => {
    const spool = spoolDirectory()
    assert.equal((await probeSpool(spool, 'auto')).locks, 'ofd')
    assert.equal((await probeSpool(spool, 'lockfile')).locks, 'lockfile')
    assert.deepEqual(leftIn(join(spool, '.spoold')), [])
  })

  it('writes nothing if the type of the file system is known', async () => {
    const spool = spoolDirectory()
    const calls: string[] = []
    const unhook = hookFs(CHANGING_CALLS, (name, _args, proceed) => {
      calls.push(name)
      return proceed()
    })
    assert.equal((await probeSpool(spool, 'auto')).locks, 'ofd')
    unhook()
    assert.deepEqual(calls, [])
    assert.ok(!existsSync(join(spool, '.spoold')))
  })

  it('tests locks with a file if the type is unknown, and does not choose leases if that file cannot be made', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const spool = smallDisk('', 'ramfs')
    assert.deepEqual(await probeSpool(spool, 'auto'), { locks: 'ofd' })
    assert.deepEqual(readdirSync(join(spool, '.spoold')), [])
    const unhook = hookFs(['openSync'], (call, [path], proceed) => {
      if (String(path).includes('probe-')) throw errnoError('ENOSPC', call, path)
      return proceed()
    })
    assert.deepEqual(await probeSpool(spool, 'auto'), { locks: 'ofd' })
    unhook()
  })
})

describe('a claimed file', () => {
  it('whose body is cut during the run has that body refused, not made up', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, packet({ a: 'b' }, Buffer.alloc(2 * 1024 * 1024)))
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    truncateSync(path, 100)
    assert.throws(() => claim.readBody(), { code: 'PACKET_MALFORMED' })
    engine.settle(claim, RETRY, 0)
  })

  it('that is appended to during the run keeps its body as it was', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, packet({ a: 'b' }, 'body'))
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    appendFileSync(path, 'more')
    assert.equal(claim.readBody()?.toString(), 'body')
    assert.deepEqual(
      toPairs(claim.vars).map(pair => pair.map(String)),
      [['a', 'b']],
    )
    engine.settle(claim, OK, 0)
  })

  it('has a descriptor that is closed on exec, so that no program that starts during the run holds the lock longer', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    const engine = await openEngine(spool)
    const claim = beginOf(engine)
    const program = spawn('cat') // until its input ends
    try {
      program.stdin.write('x')
      await once(program.stdout, 'data') // it has started, and opens nothing more
      const open = `/proc/${program.pid}/fd`
      assert.ok(!readdirSync(open).some(fd => readlinkSync(join(open, fd)) === path))
      engine.settle(claim, RELEASE, 0)
      engine.settle(beginOf(await openEngine(spool)), OK, 0)
    } finally {
      program.stdin.end()
      await once(program, 'close')
    }
  })
})
