import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { enqueue, enqueueSync, SpooldError } from '#src/index.js'
import { spoold } from '../helpers/cli.js'
import { writeIni } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { BIN, spoolDirectory, workspace } from '../helpers/workspace.js'

/** Fills a file system, in each way in which one can be full. */
const FULL: Readonly<Record<string, (disk: string) => void>> = {
  blocks: disk => {
    try {
      writeFileSync(join(disk, 'filler'), Buffer.alloc(2 ** 21))
    } catch {} // it is full now
  },
  inodes: disk => {
    try {
      for (let i = 0; ; i++) writeFileSync(join(disk, `filler${i}`), '')
    } catch {}
  },
}

describe('a disk that is full or read-only', { skip: skipUnless('root', 'mount') }, () => {
  for (const [what, fill] of Object.entries(FULL))
    it(`makes enqueue fail with SPOOL_FULL and exit code 75, and leave nothing behind (no free ${what})`, async () => {
      const disk = smallDisk('size=1m,nr_inodes=100')
      const spooler = join(disk, 'spool')
      mkdirSync(spooler)
      fill(disk)
      const full = (error: unknown) => {
        assert.ok(error instanceof SpooldError)
        assert.equal(error.code, 'SPOOL_FULL')
        assert.equal(error.details.errno, 'ENOSPC')
        return true
      }
      const dictionary = { a: 'x'.repeat(5000) }
      for (const sync of [true, false])
        for (const options of [{}, { priority: 7 }, { id: 'a' }, { body: Buffer.alloc(100_000) }]) {
          await assert.rejects(enqueue(dictionary, { spooler, sync, ...options }), full)
          assert.throws(() => enqueueSync({ a: 1 }, { spooler, sync, at: 1e9, ...options }), full)
        }
      assert.deepEqual(leftIn(spooler), [])
      const { code, stderr } = await spoold(['enqueue', '--spooler', spooler, 'a=b'])
      assert.match(stderr, /^spoold: \[SPOOL_FULL\] .*ENOSPC/)
      assert.equal(code, 75)
      execFileSync('find', [disk, '-name', 'filler*', '-delete'])
      assert.equal(
        (await enqueue(dictionary, { spooler, id: 'a' })).isDuplicate,
        false,
        'the refused enqueue did not take the id',
      )
    })

  for (const call of ['pwrite64', 'fdatasync', 'rename'])
    it(`whose quota is used up makes enqueue fail as a full one does (${call})`, {
      skip: skipUnless('strace'),
    }, () => {
      const spool = spoolDirectory()
      const refuse = ['-f', '-o', '/dev/null', '-e', `trace=${call}`, '-e', `inject=${call}:error=EDQUOT`]
      const args = [...refuse, process.execPath, BIN, 'enqueue', '--spooler', spool, 'a=b']
      const { status, stderr } = spawnSync('strace', args, { encoding: 'utf8' })
      assert.match(
        stderr,
        /^spoold: \[SPOOL_FULL\] .*: EDQUOT, .*; make room \(df, df -i, quota\) and try again\n$/,
      )
      assert.equal(status, 75)
      assert.deepEqual(leftIn(spool), [])
    })

  it('without inodes is called full by doctor, and not a file that is missing', async () => {
    const disk = smallDisk('size=1m,nr_inodes=100')
    const spooler = join(disk, 'spool')
    await enqueue({ a: 1 }, { spooler, id: 'a' }) // which makes .spoold
    FULL.inodes?.(disk)
    const home = workspace()
    const [handler, ini] = [join(home, 'handler.mjs'), join(home, 'app.ini')]
    writeFileSync(handler, 'export default () => -2')
    writeIni(ini, { spooler, 'spooler-import': handler })
    const { stdout } = await spoold(['doctor', ini])
    assert.match(stdout, /^error +room: .* 0 inodes free$/m)
    assert.match(stdout, /^error +spool: .*ENOSPC: no space left on device, open /m)
    assert.doesNotMatch(stdout, /ENOENT/)
  })

  it('takes whole tasks, and never half of one, until it is full', async () => {
    const spooler = join(smallDisk('size=512k'), 'spool')
    mkdirSync(spooler)
    const body = Buffer.alloc(30_000, 'x')
    let stored = 0
    for (const sync of [true, false])
      await assert.rejects(
        async () => {
          for (;;) {
            await enqueue({ a: 1 }, { spooler, sync, body })
            stored++
          }
        },
        { code: 'SPOOL_FULL' },
      )
    assert.ok(stored > 5)
    assert.equal(leftIn(spooler).length, stored)
    for (const name of leftIn(spooler))
      assert.equal(
        execFileSync('stat', ['-c', '%s', join(spooler, name)])
          .toString()
          .trim(),
        String(30_000 + 4 + 6),
      )
  })

  it('makes enqueue fail with EROFS and exit code 1 while it is read-only', async () => {
    const disk = smallDisk('size=1m')
    const spooler = join(disk, 'spool')
    mkdirSync(spooler)
    execFileSync('mount', ['-o', 'remount,ro', disk])
    for (const sync of [true, false])
      for (const options of [{}, { priority: 7 }, { id: 'a' }])
        await assert.rejects(enqueue({ a: 1 }, { spooler, sync, ...options }), (error: unknown) => {
          assert.ok(error instanceof SpooldError)
          assert.equal(error.code, 'ENQUEUE_FAILED')
          assert.equal(error.details.errno, 'EROFS')
          return true
        })
    const { code, stderr } = await spoold(['enqueue', '--spooler', spooler, 'a=b'])
    assert.match(stderr, /^spoold: \[ENQUEUE_FAILED\] .*EROFS: read-only file system/)
    assert.equal(code, 1)
    execFileSync('mount', ['-o', 'remount,rw', disk])
    assert.deepEqual(leftIn(spooler), [])
  })
})

it('a command and a drain end although their outputs cannot be synced, because that disk is broken', {
  skip: skipUnless('strace'),
}, () => {
  const home = workspace()
  const [spooler, ini, handler] = [join(home, 'spool'), join(home, 'app.ini'), join(home, 'handler.mjs')]
  const output = join(home, 'output')
  mkdirSync(spooler)
  writeFileSync(handler, 'export default (env, task) => task.SPOOL_OK')
  writeIni(ini, { spooler, 'spooler-import': handler })
  const fault = ['-P', output, '-e', 'trace=fsync', '-e', 'inject=fsync:error=EIO', '-o', '/dev/null']
  for (const args of [
    ['ls', spooler],
    ['--drain', ini],
  ]) {
    const fd = openSync(output, 'w')
    const command = ['timeout', '-s', 'KILL', '20', process.execPath, BIN, ...args]
    const { status } = spawnSync('strace', ['-f', '-qq', ...fault, ...command], { stdio: ['ignore', fd, fd] })
    closeSync(fd)
    assert.equal(status, 0, `${args}: ${readFileSync(output, 'utf8')}`)
    assert.doesNotMatch(readFileSync(output, 'utf8'), /Failed to sync/)
  }
})
