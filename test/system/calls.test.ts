import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import fs, { constants } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import {
  CWD,
  ENTRY_DIRECTORY,
  ENTRY_FILE,
  eachEntry,
  type FileStatus,
  O_PATH,
  pathBelow,
  type SystemCalls,
} from '#src/system/calls.js'
import { nodeCalls } from '#src/system/elsewhere.js'
import { type Koffi, libcFault, libcOver, openKoffi, systemCalls } from '#src/system/libc.js'
import { PYTHON } from '../helpers/python.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { ServiceManagerSocket } from '../helpers/service-manager.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'

const BY_NUMBER = ['getdents64', 'statx', 'renameat2', 'close_range', 'openat2']
const ENOSYS = 38
const EPERM = 1

/** koffi for a libc that does not export some functions. */
function without(names: readonly string[], koffi: Koffi = openKoffi()): Koffi {
  return {
    errno: number => (number === undefined ? koffi.errno() : koffi.errno(number)),
    address: buffer => koffi.address(buffer),
    view: (address, bytes) => koffi.view(address, bytes),
    load: library => {
      const loaded = koffi.load(library)
      return {
        func(name, result, args) {
          if (names.includes(name)) throw new Error(`Cannot find function '${name}'`)
          return loaded.func(name, result, args)
        },
      }
    },
  }
}

/** koffi on a kernel, or under a seccomp filter, that refuses these calls. */
function refusing(names: readonly string[], error: number, koffi: Koffi = openKoffi()): Koffi {
  return {
    errno: number => (number === undefined ? koffi.errno() : koffi.errno(number)),
    address: buffer => koffi.address(buffer),
    view: (address, bytes) => koffi.view(address, bytes),
    load: library => {
      const loaded = koffi.load(library)
      return {
        func(name, result, args) {
          if (!names.includes(name)) return loaded.func(name, result, args)
          const refuse = () => {
            koffi.errno(error)
            return -1
          }
          return Object.assign(refuse, { async: () => {} })
        },
      }
    },
  }
}

const hasLibc = libcFault() === undefined
/** All implementations of SystemCalls. */
const WAYS: ReadonlyArray<readonly [string, SystemCalls]> = [
  ...(hasLibc
    ? ([
        ['libc', systemCalls()],
        ['libc by system call numbers', libcOver(without(BY_NUMBER))],
        [
          'libc on an old kernel',
          libcOver(refusing(['statx', 'renameat2', 'close_range', 'openat2'], ENOSYS)),
        ],
        [
          'libc under a seccomp filter',
          libcOver(refusing(['statx', 'renameat2', 'close_range', 'openat2'], EPERM)),
        ],
      ] as const)
    : []),
  ['node:fs', nodeCalls],
]

const { O_RDONLY, O_RDWR, O_WRONLY, O_CREAT, O_EXCL, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants
const isRoot = process.getuid?.() === 0

/** Returns the properties of the error that a call throws. */
function thrownBy(call: () => unknown) {
  try {
    call()
    return undefined
  } catch (error) {
    assert.ok(error instanceof Error)
    const { code, errno, syscall, path, dest } = error as NodeJS.ErrnoException & { dest?: string }
    return { message: error.message, code, errno, syscall, path, dest }
  }
}

function facts(status: FileStatus | undefined) {
  if (status === undefined) return undefined
  const { mode, links, uid, gid, size, mtimeMs, ctimeMs, inode } = status
  return { mode, links, uid, gid, size, mtimeMs, ctimeMs, inode }
}

function factsOf(path: fs.PathLike) {
  const { mode, nlink, uid, gid, size, mtimeMs, ctimeMs } = fs.lstatSync(path)
  return {
    mode,
    links: nlink,
    uid,
    gid,
    size,
    mtimeMs,
    ctimeMs,
    inode: fs.lstatSync(path, { bigint: true }).ino,
  }
}

/** Returns a new directory, and a descriptor of it. */
function held(calls: SystemCalls) {
  const path = workspace()
  const fd = calls.openat(CWD, path, O_RDONLY | O_DIRECTORY)
  after(() => calls.close(fd))
  return { path, fd }
}

const TASK = 'uwsgi_spoolfile_on_host_1_2_3_4_5'

for (const [way, calls] of WAYS)
  describe(`system calls over ${way}`, () => {
    it('take every byte but / and NUL in a name, and every length up to 255', () => {
      const { path, fd } = held(calls)
      const names = [
        ...Array.from({ length: 255 }, (_, i) => String.fromCharCode(i + 1)).filter(
          c => c !== '/' && c !== '.',
        ),
        ...Array.from({ length: 254 }, (_, i) => 'n'.repeat(i + 2)),
        ...Array.from({ length: 254 }, (_, i) => '\xff'.repeat(i + 2)),
      ]
      for (const [i, name] of names.entries()) {
        const given = i % 2 === 0 ? name : Buffer.from(name, 'latin1')
        calls.close(calls.openat(fd, given, O_WRONLY | O_CREAT | O_EXCL, 0o600))
        assert.equal(calls.statusAt(fd, given)?.isFile, true)
      }
      assert.deepEqual(
        fs.readdirSync(path, { encoding: 'latin1' as BufferEncoding }).sort(),
        [...names].sort(),
      )
      for (const name of names) calls.unlinkat(fd, name)
      assert.deepEqual(fs.readdirSync(path), [])
    })

    it('refuse what is not a valid name, and create nothing', () => {
      const { path, fd } = held(calls)
      for (const name of [
        'a\0b',
        Buffer.from('a\0'),
        'ä€',
        'Ā',
        undefined,
        null,
        7,
        {},
        ['a'],
        Symbol('a'),
      ]) {
        const wrong = name as string
        const bad = { code: 'ERR_INVALID_ARG_VALUE' }
        assert.throws(() => calls.openat(fd, wrong, O_CREAT | O_WRONLY), bad)
        assert.throws(() => calls.tryOpenat(fd, wrong, O_CREAT | O_WRONLY), bad)
        assert.throws(() => calls.statusAt(fd, wrong), bad)
        assert.throws(() => calls.unlinkat(fd, wrong), bad)
        assert.throws(() => calls.renameat(fd, wrong, fd, 'b'), bad)
        assert.throws(() => calls.linkat(fd, 'a', fd, wrong), bad)
      }
      assert.deepEqual(fs.readdirSync(path), [])
    })

    it('throw the same errors as node:fs', { skip: !isRoot && 'needs root' }, () => {
      const { path, fd } = held(calls)
      fs.writeFileSync(join(path, 'file'), '')
      fs.mkdirSync(join(path, 'full/inner'), { recursive: true })
      fs.symlinkSync('file', join(path, 'link'))
      fs.symlinkSync('round', join(path, 'round'))
      const at = (name: string) => Buffer.from(pathBelow(fd, name), 'latin1')
      const long = 'l'.repeat(256)
      const opened = (flags: number) => (name: string) =>
        [() => calls.openat(fd, name, flags), () => fs.openSync(at(name), flags)] as const
      const pairs: ReadonlyArray<readonly [string, () => unknown, () => unknown]> = [
        ['ENOENT', ...opened(O_RDONLY)('missing')],
        ['ENOENT', ...opened(O_RDONLY)('\xfcml\xc3\xa4ut')],
        ['ENOTDIR', ...opened(O_RDONLY)('file/below')],
        ['EISDIR', ...opened(O_RDWR)('full')],
        ['ELOOP', ...opened(O_RDONLY | O_NOFOLLOW)('link')],
        ['ELOOP', ...opened(O_RDONLY)('round')],
        ['EEXIST', ...opened(O_RDWR | O_CREAT | O_EXCL)('file')],
        ['ENAMETOOLONG', ...opened(O_RDONLY)(long)],
        ['ENAMETOOLONG', ...opened(O_RDONLY)('x/'.repeat(4000))],
        ['ENOENT', () => calls.unlinkat(fd, 'missing'), () => fs.unlinkSync(at('missing'))],
        ['EISDIR', () => calls.unlinkat(fd, 'full'), () => fs.unlinkSync(at('full'))],
        ['EEXIST', () => calls.mkdirat(fd, 'full', 0o700), () => fs.mkdirSync(at('full'), 0o700)],
        ['ENOENT', () => calls.mkdirat(fd, 'a/b', 0o700), () => fs.mkdirSync(at('a/b'), 0o700)],
        ['EEXIST', () => calls.linkat(fd, 'file', fd, 'link'), () => fs.linkSync(at('file'), at('link'))],
        ['EPERM', () => calls.linkat(fd, 'full', fd, 'new'), () => fs.linkSync(at('full'), at('new'))],
        ['ENOENT', () => calls.renameat(fd, 'a', fd, 'b'), () => fs.renameSync(at('a'), at('b'))],
        [
          'EINVAL',
          () => calls.renameat(fd, 'full', fd, 'full/x'),
          () => fs.renameSync(at('full'), at('full/x')),
        ],
        [
          'EXDEV',
          () => calls.renameat(fd, 'file', CWD, '/proc/x'),
          () => fs.renameSync(at('file'), '/proc/x'),
        ],
        ['ENOTDIR', () => calls.statusAt(fd, 'file/x'), () => fs.lstatSync(at('file/x'))],
        ['EBADF', () => calls.status(999_999), () => fs.fstatSync(999_999)],
        ['EBADF', () => calls.close(999_999), () => fs.closeSync(999_999)],
        [
          'EISDIR',
          () => calls.pread(fd, Buffer.alloc(1), 1, 0),
          () => fs.readSync(fd, Buffer.alloc(1), 0, 1, 0),
        ],
        [
          'EBADF',
          () => calls.pwrite(fd, Buffer.alloc(1), 1, 0),
          () => fs.writeSync(fd, Buffer.alloc(1), 0, 1, 0),
        ],
      ]
      for (const [code, ours, theirs] of pairs) {
        const expected = thrownBy(theirs)
        assert.equal(expected?.code, code)
        assert.deepEqual(thrownBy(ours), expected)
      }
      for (const [code, name, flags] of [
        ['ENOENT', 'missing', O_RDONLY],
        ['EISDIR', 'full', O_RDWR],
        ['ELOOP', 'link', O_NOFOLLOW],
      ] as const)
        assert.equal(
          calls.tryOpenat(fd, name, flags),
          thrownBy(() => fs.openSync(at(name), flags))?.errno,
          code,
        )
      assert.equal(calls.tryUnlinkat(fd, 'missing'), -2)
      assert.equal(calls.tryUnlinkat(fd, 'file'), 0)
    })

    it('throw ENXIO for a FIFO without a reader or a socket, and ETXTBSY for a running program', async () => {
      const { path, fd } = held(calls)
      spawnSync('mkfifo', [join(path, 'fifo')])
      const server = net.createServer().listen(join(path, 'socket'))
      await new Promise(resolve => server.once('listening', resolve))
      fs.copyFileSync('/bin/sleep', join(path, 'program'))
      const running = spawn(join(path, 'program'), ['60'])
      try {
        await new Promise(resolve => running.once('spawn', resolve))
        for (const [code, name, flags] of [
          ['ENXIO', 'fifo', O_WRONLY | O_NONBLOCK],
          ['ENXIO', 'socket', O_RDONLY],
          ['ETXTBSY', 'program', O_WRONLY],
        ] as const)
          assert.equal(thrownBy(() => calls.openat(fd, name, flags))?.code, code)
      } finally {
        running.kill()
        server.close()
      }
    })

    it('return the same status of an inode as fstat and lstat', () => {
      const { path, fd } = held(calls)
      fs.writeFileSync(join(path, 'file'), 'text', { mode: 0o4751 })
      fs.linkSync(join(path, 'file'), join(path, 'other'))
      fs.symlinkSync('file', join(path, 'link'))
      fs.mkdirSync(join(path, 'directory'))
      spawnSync('mkfifo', [join(path, 'fifo')])
      fs.writeFileSync(join(path, 'huge'), '')
      fs.truncateSync(join(path, 'huge'), 2 ** 40 + 12345)
      for (const [i, seconds] of [-1.5, 0, 1.25, 2 ** 31 + 0.5, 1_700_000_000.123].entries()) {
        fs.writeFileSync(join(path, `time${i}`), '')
        fs.utimesSync(join(path, `time${i}`), seconds, seconds)
      }
      if (isRoot) fs.chownSync(join(path, 'other'), 4_000_000_000, 65_534)
      for (const name of fs.readdirSync(path)) {
        assert.deepEqual(facts(calls.statusAt(fd, name)), factsOf(join(path, name)), name)
        const opened = name === 'link' ? undefined : fs.openSync(join(path, name), O_RDONLY | O_NONBLOCK)
        if (opened === undefined) continue
        assert.deepEqual(facts(calls.status(opened)), factsOf(join(path, name)), name)
        fs.closeSync(opened)
      }
      for (const device of ['/dev/null', '/proc/self/stat', '/sys'])
        assert.deepEqual(facts(calls.statusAt(CWD, device)), factsOf(device))
      const kinds = (name: string) => {
        const { isFile, isDirectory, isLink } = calls.statusAt(fd, name) ?? {}
        return { isFile, isDirectory, isLink }
      }
      assert.deepEqual(kinds('file'), { isFile: true, isDirectory: false, isLink: false })
      assert.deepEqual(kinds('link'), { isFile: false, isDirectory: false, isLink: true })
      assert.deepEqual(kinds('directory'), { isFile: false, isDirectory: true, isLink: false })
      assert.deepEqual(kinds('fifo'), { isFile: false, isDirectory: false, isLink: false })
      const [file, other] = [calls.statusAt(fd, 'file'), calls.statusAt(fd, 'other')]
      assert.ok(file && other && file.isSame(other))
      assert.ok(calls.statusAt(fd, 'huge')?.isSame(file) === false)
      assert.ok(calls.statusAt(CWD, '/proc/self/stat')?.isSame(file) === false)
      const { dev } = fs.statSync(path)
      assert.deepEqual([file.major, file.minor], [dev >>> 8, dev & 0xff])
    })

    it('read and write at a position', () => {
      const { path, fd } = held(calls)
      const file = calls.openat(fd, 'file', O_RDWR | O_CREAT, 0o600)
      assert.equal(calls.pwrite(file, Buffer.from('0123456789'), 10, 0), 10)
      assert.equal(calls.pwrite(file, Buffer.from('abcdef').subarray(2), 3, 4), 3)
      assert.equal(fs.readFileSync(join(path, 'file'), 'latin1'), '0123cde789')
      const into = Buffer.alloc(20, '.')
      assert.equal(calls.pread(file, into.subarray(5), 4, 2), 4)
      assert.equal(into.toString(), '.....23cd...........')
      assert.equal(calls.pread(file, into, 20, 8), 2)
      assert.equal(calls.pread(file, into, 20, 10), 0)
      assert.equal(calls.pread(file, into, 0, 0), 0)
      assert.equal(calls.pwrite(file, Buffer.from('far'), 3, 2 ** 41), 3)
      assert.equal(calls.pread(file, into, 20, 2 ** 41 - 1), 4)
      assert.equal(into.toString('latin1', 0, 4), '\0far')
      calls.close(file)
    })

    it('refuse invalid descriptors, lengths and positions', () => {
      const { path, fd } = held(calls)
      const file = calls.openat(fd, 'file', O_RDWR | O_CREAT, 0o600)
      const bytes = Buffer.alloc(8)
      for (const wrong of [
        -1,
        1.5,
        2 ** 31,
        2 ** 32 + file,
        Number.NaN,
        '3',
        null,
        undefined,
        [file],
        { valueOf: () => file },
      ]) {
        const bad = wrong as number
        for (const call of [
          () => calls.openat(bad, 'x', O_CREAT),
          () => calls.status(bad),
          () => calls.close(bad),
          () => calls.pread(bad, bytes, 1, 0),
          () => calls.pwrite(bad, bytes, 1, 0),
          () => calls.unlinkat(bad, 'file'),
        ])
          assert.throws(call, /expected a descriptor/, String(call))
      }
      for (const length of [-1, 9, 2 ** 32 + 1, 1.5, Number.NaN])
        for (const call of [calls.pread, calls.pwrite])
          assert.throws(() => call(file, bytes, length, 0), RangeError)
      assert.throws(() => calls.pread(file, bytes, 1, -1), RangeError)
      assert.equal(fs.statSync(join(path, 'file')).size, 0)
      calls.close(file)
    })

    it('create, link, rename and remove names as node:fs does', () => {
      const [ours, theirs] = [held(calls), workspace()]
      type Step = readonly [(fd: number) => void, (at: (name: string) => string) => void]
      const steps: readonly Step[] = [
        [fd => calls.mkdirat(fd, 'd', 0o751), at => fs.mkdirSync(at('d'), 0o751)],
        [
          fd => calls.close(calls.openat(fd, 'd/f', O_CREAT, 0o640)),
          at => fs.closeSync(fs.openSync(at('d/f'), O_CREAT, 0o640)),
        ],
        [fd => calls.linkat(fd, 'd/f', fd, 'g'), at => fs.linkSync(at('d/f'), at('g'))],
        [fd => calls.renameat(fd, 'd/f', fd, 'h'), at => fs.renameSync(at('d/f'), at('h'))],
        [fd => calls.mkdirat(fd, 'e', 0o700), at => fs.mkdirSync(at('e'), 0o700)],
        [
          fd => calls.openat(fd, 'i', O_CREAT | O_EXCL, 0o600),
          at => fs.openSync(at('i'), O_CREAT | O_EXCL, 0o600),
        ],
        [fd => calls.unlinkat(fd, 'i'), at => fs.unlinkSync(at('i'))],
      ]
      const seen = (path: string) =>
        (fs.readdirSync(path, { recursive: true }) as string[]).sort().map(name => {
          const { mode, links, uid, gid, size, mtimeMs } = factsOf(join(path, name))
          return { name, mode, links, uid, gid, size, mtimeMs: mtimeMs < 1.5e12 ? mtimeMs : 'now' }
        })
      for (const [mine, node] of steps) {
        mine(ours.fd)
        node(name => join(theirs, name))
        assert.deepEqual(seen(ours.path), seen(theirs))
      }
    })

    it('rename without replacing an existing name', () => {
      const { path, fd } = held(calls)
      for (const name of ['a', 'b']) fs.writeFileSync(join(path, name), name)
      const inode = fs.statSync(join(path, 'a')).ino
      assert.equal(thrownBy(() => calls.renameFreely(fd, 'a', fd, 'b'))?.code, 'EEXIST')
      assert.deepEqual(
        ['a', 'b'].map(name => fs.readFileSync(join(path, name), 'utf8')),
        ['a', 'b'],
      )
      calls.renameFreely(fd, 'a', fd, 'c')
      assert.deepEqual(fs.readdirSync(path).sort(), ['b', 'c'])
      assert.equal(fs.statSync(join(path, 'c')).ino, inode)
      assert.equal(thrownBy(() => calls.renameFreely(fd, 'gone', fd, 'd'))?.code, 'ENOENT')
    })

    it('open only below a directory, and follow no symbolic link', () => {
      const { path, fd } = held(calls)
      fs.mkdirSync(join(path, 'a/b'), { recursive: true })
      fs.writeFileSync(join(path, 'a/b/file'), 'it')
      fs.symlinkSync('b', join(path, 'a/inner'))
      fs.symlinkSync('file', join(path, 'a/b/last'))
      fs.symlinkSync('/etc', join(path, 'out'))
      fs.symlinkSync('/proc/self/cwd', join(path, 'magic'))
      for (const name of ['a/b/file', './a/./b//file', 'a//b/file']) {
        const opened = calls.openBeneath(fd, name, O_RDONLY)
        assert.equal(fs.readFileSync(opened, 'utf8'), 'it')
        calls.close(opened)
      }
      for (const [name, code] of [
        ['a/inner/file', 'ELOOP'],
        ['a/b/last', 'ELOOP'],
        ['out/passwd', 'ELOOP'],
        ['magic', 'ELOOP'],
        ['magic/x', 'ELOOP'],
        ['../x', 'EXDEV'],
        ['/etc/passwd', 'EXDEV'],
        ['a/missing/x', 'ENOENT'],
        ['a/b/file/x', 'ENOTDIR'],
        ['a/b/file/', 'ENOTDIR'],
        ['', 'ENOENT'],
      ] as const)
        assert.equal(thrownBy(() => calls.openBeneath(fd, name, O_RDONLY))?.code, code, name)
    })

    it('close a range of descriptors, and no other', () => {
      const opened = Array.from({ length: 64 }, () => fs.openSync('/dev/null', O_RDONLY))
      const [first = -1, second = -1, third = -1, ...others] = opened.slice(-8) // the last ones, whose numbers have no gaps
      assert.deepEqual([second, third], [first + 1, first + 2])
      calls.closeRun(first, first)
      assert.throws(() => fs.fstatSync(first), { code: 'EBADF' })
      assert.ok(fs.fstatSync(second))
      calls.closeRun(second, third)
      for (const fd of [second, third]) assert.throws(() => fs.fstatSync(fd), { code: 'EBADF' })
      for (const fd of others) assert.ok(fs.fstatSync(fd))
      for (const fd of opened) if (fd < first || fd > third) fs.closeSync(fd)
      assert.throws(() => calls.closeRun(9, 8), RangeError)
    })

    it('pass no descriptor to a program that is started', () => {
      const { fd } = held(calls)
      const opened = [calls.openat(fd, 'x', O_CREAT, 0o600), calls.openat(CWD, '/dev/null', O_RDWR)]
      const { stdout } = spawnSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8' })
      assert.match(stdout, / 2 -> /)
      assert.doesNotMatch(stdout, /\/x$|null.*\n.*null.*\n.*null/m)
      for (const each of opened) calls.close(each)
    })
  })

describe('what node:fs lacks, over libc', { skip: !hasLibc && 'there is no libc' }, () => {
  const calls = systemCalls()
  const skip = skipUnless('python3')

  it('opens a file in memory that has no name', () => {
    for (const way of [calls, libcOver(without(['memfd_create']))]) {
      const fd = way.memoryFile()
      fs.writeSync(fd, 'kept')
      const again = fs.openSync(`/proc/self/fd/${fd}`, O_RDWR)
      assert.equal(fs.readFileSync(again, 'utf8'), 'kept')
      assert.equal(fs.fstatSync(again).nlink, 0)
      for (const each of [fd, again]) fs.closeSync(each)
    }
  })

  it('maps a file into memory that others read and write, until it is unmapped', () => {
    const fd = calls.memoryFile()
    fs.writeSync(fd, 'from a write')
    const { memory, unmap } = calls.mapShared(fd, 12)
    const bytes = new Uint8Array(memory)
    assert.equal(Buffer.from(bytes).toString(), 'from a write')
    assert.equal(Atomics.compareExchange(bytes, 0, 'f'.charCodeAt(0), 'F'.charCodeAt(0)), 'f'.charCodeAt(0))
    const read = Buffer.alloc(12)
    fs.readSync(fd, read, 0, 12, 0)
    assert.equal(read.toString(), 'From a write')
    unmap()
    fs.closeSync(fd)
    assert.equal(thrownBy(() => calls.mapShared(fd, 12))?.code, 'EBADF')
  })

  it('locks whole files so that its locks and POSIX locks exclude each other', { skip }, async () => {
    const { path, fd } = held(calls)
    fs.writeFileSync(join(path, 'file'), 'x')
    const mine = calls.openat(fd, 'file', O_RDWR)
    const beside = calls.openat(fd, 'file', O_RDWR)
    const POSIX = `import fcntl, sys
with open(sys.argv[1], 'r+') as f:
    try: fcntl.lockf(f, int(sys.argv[2]) | fcntl.LOCK_NB); print('taken', flush=True)
    except OSError as e: print(e.errno, flush=True)
    sys.stdin.read()`
    const posix = async (kind: 'EX' | 'SH'): Promise<ChildProcess & { said: string }> => {
      const child = spawn(PYTHON, ['-c', POSIX, join(path, 'file'), kind === 'EX' ? '2' : '1'])
      let said = ''
      child.stdout.on('data', text => {
        said += text
      })
      await until('the other process has tried to lock', () => said.includes('\n'))
      return Object.assign(child, { said: said.trim() })
    }
    const end = async (child: ChildProcess) => {
      child.stdin?.end()
      await new Promise(resolve => child.once('exit', resolve))
    }
    assert.equal(calls.tryLock(mine), true)
    assert.equal(calls.tryLock(mine), true, 'the holder may lock again')
    assert.equal(calls.tryLock(beside), false)
    assert.deepEqual(
      [calls.isLocked(beside), calls.isLocked(mine)],
      [true, false],
      'a lock is locked for others, but not for its holder',
    )
    fs.closeSync(fs.openSync(join(path, 'file'), 'r+')) // would end a POSIX lock
    assert.match(
      fs.readFileSync('/proc/locks', 'utf8'),
      new RegExp(`OFDLCK +ADVISORY +WRITE .*:${fs.statSync(join(path, 'file')).ino} 0 EOF`),
    )
    let other = await posix('EX')
    assert.match(other.said, /^1[13]$/)
    await end(other)
    calls.unlock(mine)
    assert.equal(calls.isLocked(beside), false)
    other = await posix('EX')
    assert.equal(other.said, 'taken', 'isLocked() takes no lock')
    assert.deepEqual([calls.isLocked(mine), calls.tryLock(mine)], [true, false])
    await end(other)
    other = await posix('SH')
    assert.equal(other.said, 'taken')
    assert.deepEqual([calls.isLocked(beside), calls.tryLock(beside)], [true, false])
    await end(other)
    assert.equal(calls.tryLock(mine), true)
    calls.close(mine)
    assert.equal(calls.tryLock(beside), true, 'closing the file has released the lock')
    calls.close(beside)
    const unreadable = calls.openat(fd, 'file', O_RDONLY)
    assert.equal(thrownBy(() => calls.tryLock(unreadable))?.code, 'EBADF')
    calls.close(unreadable)
  })

  it('lists directories of any size, with the kind of each entry', async () => {
    for (const [name, way] of [
      ['exported', calls],
      ['by number', libcOver(without(['getdents64']))],
    ] as const) {
      const { path, fd } = held(way)
      assert.deepEqual(await listed(way, fd), [], name)
      fs.mkdirSync(join(path, 'directory'))
      fs.symlinkSync('x', join(path, 'link'))
      for (const odd of ['..x', '...', '.x', '\xff', 'n'.repeat(255), TASK])
        fs.writeFileSync(Buffer.from(join(path, odd), 'latin1'), '')
      const few = await listed(way, calls.openat(CWD, path, O_DIRECTORY))
      assert.deepEqual(
        few.map(([entry]) => entry).sort(),
        fs.readdirSync(path, { encoding: 'latin1' as BufferEncoding }).sort(),
      )
      assert.equal(new Map(few).get('directory'), ENTRY_DIRECTORY)
      assert.equal(new Map(few).get(TASK), ENTRY_FILE)
      const COUNT = isLong ? 1_000_000 : 100_000
      for (let i = 0; i < COUNT; i++) way.close(way.openat(fd, `${'p'.repeat(i % 40)}${i}`, O_CREAT, 0o600))
      for (const aside of [false, true]) {
        const many = await listed(way, calls.openat(CWD, path, O_DIRECTORY), aside)
        assert.equal(many.length, COUNT + 8)
        assert.equal(new Set(many.map(([entry]) => entry)).size, COUNT + 8)
        assert.ok(many.every(([entry]) => /^p*\d+$/.test(entry) === !few.some(([odd]) => odd === entry)))
      }
    }
  })

  async function listed(way: SystemCalls, fd: number, isAside = false) {
    const found: Array<readonly [string, number]> = []
    const slice = Buffer.alloc(32 * 1024, 0xee)
    for (;;) {
      const bytes = isAside ? await way.getdentsAside(fd, slice) : way.getdents(fd, slice)
      if (bytes === 0) return found
      eachEntry(slice, bytes, (name, kind) => found.push([name, kind]) > 0)
    }
  }

  it('fails to list what is not a directory, on another thread too', async () => {
    const { fd } = held(calls)
    const file = calls.openat(fd, 'file', O_CREAT | O_RDONLY, 0o600)
    assert.equal(thrownBy(() => calls.getdents(file, Buffer.alloc(100)))?.code, 'ENOTDIR')
    await assert.rejects(calls.getdentsAside(file, Buffer.alloc(100)), {
      code: 'ENOTDIR',
      errno: -20,
      syscall: 'scandir',
    })
    assert.equal(thrownBy(() => calls.getdents(fd, Buffer.alloc(1)))?.code, 'EINVAL')
    calls.close(file)
  })

  it('distinguishes inodes above 2^53 that differ only in the lowest bit', () => {
    const real = openKoffi()
    let inode = 0n
    const invented: Koffi = {
      errno: () => 0,
      address: () => 0n,
      view: real.view,
      load: library => ({
        func(name, result, args) {
          if (name !== 'statx') return real.load(library).func(name, result, args)
          const fill = (...given: unknown[]) => {
            const into = given.at(-1) as Uint32Array
            new BigUint64Array(into.buffer)[4] = inode
            return 0
          }
          return Object.assign(fill, { async() {} })
        },
      }),
    }
    const at = (number: bigint) => {
      inode = number
      return libcOver(invented).status(0)
    }
    for (const number of [2n ** 53n, 2n ** 60n + 2n, 2n ** 64n - 2n]) {
      assert.equal(at(number).inode, number)
      assert.equal(at(number + 1n).inode, number + 1n)
      assert.equal(at(number).isSame(at(number + 1n)), false)
      assert.equal(at(number).isSame(at(number)), true)
      assert.equal(Number(number), Number(number + 1n), 'both are the same as a Number')
    }
  })

  it('creates FIFOs and pipes', () => {
    const path = workspace()
    calls.mkfifo(join(path, 'fifo'), 0o600)
    const { stdout } = spawnSync('stat', ['-c', '%F %a', join(path, 'fifo')], { encoding: 'utf8' })
    assert.equal(stdout, 'fifo 600\n')
    assert.equal(thrownBy(() => calls.mkfifo(join(path, 'fifo'), 0o600))?.code, 'EEXIST')
    assert.equal(thrownBy(() => calls.mkfifo(join(path, 'no/fifo'), 0o600))?.code, 'ENOENT')
    const [reader, writer] = calls.pipe()
    fs.writeSync(writer, 'through')
    fs.closeSync(writer)
    assert.equal(fs.readFileSync(reader, 'utf8'), 'through')
    fs.closeSync(reader)
  })

  for (const address of ['a path', 'an abstract name'])
    it(`sends datagrams to ${address}`, { skip }, async () => {
      const name = address === 'a path' ? undefined : `@spoold-test-${process.pid}-\xc3\xa4`
      const manager = await ServiceManagerSocket.listen(
        name === undefined ? undefined : Buffer.from(name, 'latin1').toString(),
      )
      const to = name ?? manager.socket
      assert.equal(calls.sendDatagram(to, Buffer.from('READY=1\nSTATUS=läuft')), true)
      const { pid, fields } = await manager.heard('READY')
      assert.deepEqual([pid, fields], [process.pid, { READY: '1', STATUS: 'läuft' }])
    })

  it('throws the error of the kernel if a datagram cannot be sent', () => {
    const path = join(workspace(), 'socket')
    assert.equal(thrownBy(() => calls.sendDatagram(path, Buffer.from('x')))?.code, 'ENOENT')
    fs.writeFileSync(path, '')
    assert.equal(thrownBy(() => calls.sendDatagram(path, Buffer.from('x')))?.code, 'ECONNREFUSED')
    assert.equal(
      thrownBy(() => calls.sendDatagram(`/${'x'.repeat(200)}`, Buffer.from('x')))?.code,
      'ENAMETOOLONG',
    )
    assert.equal(thrownBy(() => calls.sendDatagram('', Buffer.from('x')))?.code, 'EINVAL')
  })

  it('does not wait for a slow reader of datagrams', { skip }, async () => {
    const path = join(workspace(), 'socket')
    const SLOW = `import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1]); print('bound', flush=True); sys.stdin.read()`
    const child = spawn(PYTHON, ['-c', SLOW, path])
    await new Promise(resolve => child.stdout.once('data', resolve))
    let sent = 0
    while (sent < 100_000 && calls.sendDatagram(path, Buffer.from('x'))) sent++
    child.kill()
    assert.ok(sent > 0 && sent < 100_000, String(sent))
  })

  it('passes descriptors with messages, and keeps the messages separate', () => {
    const file = join(workspace(), 'file')
    fs.writeFileSync(file, 'through')
    const [one, other] = calls.socketPair(10_000)
    const opened = fs.openSync(file, 'r')
    calls.sendMessage(one, Buffer.from('first'), [opened, opened])
    calls.sendMessage(one, Buffer.from('second'), [])
    fs.closeSync(opened)
    const into = Buffer.alloc(100)
    const { bytes, descriptors } = calls.receiveMessage(other, into)
    assert.equal(into.toString('utf8', 0, bytes), 'first')
    assert.equal(descriptors.length, 2)
    for (const fd of descriptors) {
      assert.match(fs.readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'), /^flags:\t02/m, 'it is close-on-exec')
      assert.equal(fs.readSync(fd, into, 0, 100, 0), 7)
      fs.closeSync(fd)
    }
    assert.deepEqual(calls.receiveMessage(other, into), { bytes: 6, descriptors: [] })
    const before = fs.readdirSync('/proc/self/fd').length
    for (const [message, room] of [
      ['longer than there is room', 4],
      ['x'.repeat(99), 98],
    ] as const) {
      calls.sendMessage(one, Buffer.from(message), [other])
      assert.equal(thrownBy(() => calls.receiveMessage(other, Buffer.alloc(room)))?.code, 'EMSGSIZE')
    }
    assert.equal(
      fs.readdirSync('/proc/self/fd').length,
      before,
      'the descriptors of refused messages are closed',
    )
    assert.equal(
      thrownBy(() => calls.sendMessage(one, Buffer.from('x'), Array(17).fill(0)))?.code,
      'ERR_OUT_OF_RANGE',
    )
    assert.equal(thrownBy(() => calls.sendMessage(one, Buffer.from('x'), [2 ** 30]))?.code, 'EBADF')
    calls.close(other)
    assert.equal(thrownBy(() => calls.sendMessage(one, Buffer.from('x'), []))?.code, 'EPIPE')
    assert.deepEqual(calls.receiveMessage(one, into), { bytes: 0, descriptors: [] })
    calls.close(one)
  })

  it('waits for a message, but throws EAGAIN after the time limit', () => {
    const [one, other] = calls.socketPair(50)
    const startedAt = performance.now()
    assert.equal(thrownBy(() => calls.receiveMessage(one, Buffer.alloc(1)))?.code, 'EAGAIN')
    assert.ok(performance.now() - startedAt >= 45)
    for (const fd of [one, other]) calls.close(fd)
  })

  it('binds a socket below a directory, unless the name exists', async () => {
    const path = workspace()
    const directory = calls.openat(CWD, path, O_RDONLY | O_DIRECTORY)
    fs.writeFileSync(join(path, 'file'), '')
    fs.symlinkSync(join(path, 'nothing'), join(path, 'link'))
    const socket = calls.socket()
    for (const name of ['file', 'link'])
      assert.equal(thrownBy(() => calls.bindat(socket, directory, name))?.code, 'EADDRINUSE', name)
    assert.equal(thrownBy(() => calls.bindat(socket, directory, 'x'.repeat(100)))?.code, 'ENAMETOOLONG')
    calls.bindat(socket, directory, '@\xc3\xa4')
    assert.equal(calls.statusAt(directory, '@\xc3\xa4')?.isSocket, true)
    const server = net.createServer(client => client.end('hello'))
    await new Promise<void>(done => server.listen({ fd: socket }, 8, done))
    const client = net.connect(join(path, '@ä'))
    const heard = await new Promise(resolve => client.once('data', resolve))
    assert.equal(String(heard), 'hello')
    client.destroy()
    server.close()
    calls.close(directory)
  })

  it('reads a symbolic link by its name, and by a descriptor after it was renamed', () => {
    const path = workspace()
    const directory = calls.openat(CWD, path, O_RDONLY | O_DIRECTORY)
    fs.symlinkSync(Buffer.from('to \xe4 \xff', 'latin1'), join(path, 'link'))
    assert.equal(calls.readlinkat(directory, 'link'), 'to \xe4 \xff')
    const held = calls.openat(directory, 'link', O_PATH | O_NOFOLLOW)
    assert.equal(calls.status(held).isLink, true)
    fs.renameSync(join(path, 'link'), join(path, 'moved'))
    assert.equal(calls.readlinkat(held, ''), 'to \xe4 \xff')
    assert.equal(thrownBy(() => calls.readlinkat(directory, 'link'))?.code, 'ENOENT')
    fs.writeFileSync(join(path, 'file'), '')
    assert.equal(thrownBy(() => calls.readlinkat(directory, 'file'))?.code, 'EINVAL')
    for (const fd of [held, directory]) calls.close(fd)
  })

  it('makes a FIFO blocking again that was opened non-blocking', () => {
    const path = join(workspace(), 'fifo')
    calls.mkfifo(path, 0o600)
    const fd = calls.openat(CWD, path, O_RDWR | O_NONBLOCK)
    const isWaiting = () => !/^flags:\t\d*4\d{3}$/m.test(fs.readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))
    assert.equal(isWaiting(), false)
    calls.letWait(fd)
    assert.equal(isWaiting(), true)
    calls.close(fd)
  })

  it('takes the wait status of one process, and does not wait for it', () => {
    // libuv takes it too, but not before this turn of the event loop is over
    const code = `
      import { spawn } from 'node:child_process'
      import { systemCalls } from ${JSON.stringify(import.meta.resolve('#src/system/libc.js'))}
      const { waitpid } = systemCalls()
      const { pid } = spawn('sh', ['-c', 'read x; exit 7'], { stdio: ['pipe', 'ignore', 'ignore'] })
      if (waitpid(pid) !== undefined) throw new Error('it runs')
      process.kill(pid, 'SIGTERM')
      let status
      for (const end = Date.now() + 5000; status === undefined && Date.now() < end; ) status = waitpid(pid)
      let missing
      try { waitpid(pid) } catch (error) { missing = error.code }
      console.log(status, missing)
      process.exit(0)`
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      encoding: 'utf8',
    })
    assert.equal(stdout, '15 ECHILD\n', stderr)
    for (const wrong of [0, -1, 1.5, undefined])
      assert.throws(() => calls.waitpid(wrong as number), RangeError)
  })

  it('keeps inherited descriptors from child processes', { skip: skipUnless('bash') }, () => {
    const code = (refused: boolean) => `
      import { spawnSync } from 'node:child_process'
      import { openSync } from 'node:fs'
      import { libcOver, openKoffi } from ${JSON.stringify(import.meta.resolve('#src/system/libc.js'))}
      const koffi = openKoffi()
      const refusing = { errno: koffi.errno, load: () => ({ func: (...args) => {
        if (!${refused} || args[0] !== 'close_range') return koffi.load(null).func(...args)
        return () => { koffi.errno(22); return -1 }
      } }) }
      const calls = libcOver(refusing)
      const shown = () => spawnSync('readlink', ['/proc/self/fd/40'], { encoding: 'utf8' }).stdout
      const before = shown()
      calls.keepFromChildren(3)
      console.log(JSON.stringify([before, shown()]))`
    for (const refused of [false, true]) {
      const { stdout, stderr } = spawnSync(
        'bash',
        [
          '-c',
          'exec "$@" 40</dev/zero',
          'bash',
          process.execPath,
          '--input-type=module',
          '-e',
          code(refused),
        ],
        { encoding: 'utf8' },
      )
      assert.equal(stdout, '["/dev/zero\\n",""]\n', stderr)
    }
  })
})
