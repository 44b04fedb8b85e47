import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, it } from 'node:test'
import { Emitter } from '#src/base/events/emitter.js'
import { acquirePidfile, Pidfiles } from '#src/doors/daemon/pidfile.js'
import { Opener } from '#src/system/opener.js'
import { workspace } from '../helpers/workspace.js'

const MINE = `${process.pid}\n`
const FILES = new Opener(null)
/** Returns the same opener with another way to lock. */
const lockedBy = (lock: Opener['lock']) => ({
  make: FILES.make.bind(FILES),
  remove: FILES.remove.bind(FILES),
  lock,
})

describe('a pidfile', () => {
  it('holds the pid and a newline, and stays without vacuum', async () => {
    const file = join(workspace(), 'pid')
    const pidfile = await acquirePidfile(file, FILES)
    assert.equal(readFileSync(file, 'utf8'), MINE)
    assert.equal(pidfile.release(false), undefined)
    assert.equal(readFileSync(file, 'utf8'), MINE)
  })

  it('is refused while it is held, with the pid of its holder', async () => {
    const file = join(workspace(), 'pid')
    const held = await acquirePidfile(file, FILES)
    await assert.rejects(acquirePidfile(file, FILES), {
      code: 'PIDFILE_HELD',
      message: `another spoold (pid ${process.pid}) holds ${file}; stop it, or name another pidfile`,
    })
    assert.equal(readFileSync(file, 'utf8'), MINE)
    held.release(false)
    ;(await acquirePidfile(file, FILES)).release(true)
  })

  it('that a dead process left is taken over, whatever it contains', async () => {
    const file = join(workspace(), 'pid')
    writeFileSync(file, `${'9'.repeat(50)} and more\nlines\n`)
    const pidfile = await acquirePidfile(file, FILES)
    assert.equal(readFileSync(file, 'utf8'), MINE)
    pidfile.release(true)
    assert.ok(!existsSync(file))
  })

  it('is made again if its last holder removes it just before the lock', async () => {
    const file = join(workspace(), 'pid')
    let isFirst = true
    const lock = lockedBy(async fd => {
      if (isFirst) rmSync(file)
      isFirst = false
      return FILES.lock(fd)
    })
    const pidfile = await acquirePidfile(file, lock)
    assert.equal(readFileSync(file, 'utf8'), MINE)
    pidfile.release(true)
  })

  it('is removed where it was made, even from another directory', async () => {
    const directory = workspace()
    const file = join(directory, 'pid')
    const before = process.cwd()
    const pidfile = await acquirePidfile(relative(before, file), FILES)
    try {
      process.chdir(dirname(directory))
      assert.equal(pidfile.release(true), undefined)
    } finally {
      process.chdir(before)
    }
    assert.ok(!existsSync(file))
  })

  it('of somebody else that has taken its place is not removed', async () => {
    const file = join(workspace(), 'pid')
    const pidfile = await acquirePidfile(file, FILES)
    renameSync(file, `${file}.moved`)
    writeFileSync(file, '1\n')
    assert.equal(pidfile.release(true), undefined)
    assert.equal(readFileSync(file, 'utf8'), '1\n')
  })

  it('that cannot be opened or written fails with an error that names it', async () => {
    const missing = join(workspace(), 'missing', 'pid')
    await assert.rejects(acquirePidfile(missing, FILES), {
      code: 'START_FAILED',
      message: new RegExp(`the pidfile ${missing} cannot be opened \\(ENOENT`),
    })
    await assert.rejects(
      acquirePidfile(
        '/dev/full',
        lockedBy(async () => true),
      ),
      { code: 'START_FAILED', message: /the pidfile \/dev\/full cannot be (opened|written) \(/ },
    )
  })
})

describe('pidfiles', () => {
  it('of both kinds may have the same path', async () => {
    const file = join(workspace(), 'pid')
    const payloads: unknown[] = []
    const events = new Emitter()
    events.on('pidfile-written', payload => payloads.push(payload))
    events.on('pidfile-removed', payload => payloads.push(payload))
    const pidfiles = new Pidfiles(events, FILES)
    await pidfiles.acquire('pidfile', file)
    await pidfiles.acquire('safe pidfile', file)
    pidfiles.release(true)
    assert.deepEqual(payloads, [{ file }, { file }, { kind: 'pidfile' }])
    assert.ok(!existsSync(file))
  })

  it('that cannot be removed are reported, and do not fail the stop', async () => {
    const directory = join(workspace(), 'run')
    mkdirSync(directory)
    const file = join(directory, 'pid')
    const left: unknown[] = []
    const events = new Emitter()
    events.on('pidfile-left', payload => left.push(payload))
    const pidfiles = new Pidfiles(events, FILES)
    await pidfiles.acquire('pidfile', file)
    chmodSync(directory, 0o500)
    const [uid, gid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0]
    try {
      if (uid === 0) process.seteuid?.(65_534)
      pidfiles.release(true)
    } finally {
      process.seteuid?.(uid)
      process.setegid?.(gid)
      chmodSync(directory, 0o700)
    }
    assert.match(JSON.stringify(left), /EACCES/)
  })
})
