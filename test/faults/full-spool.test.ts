import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { toOutcome } from '#src/base/task/answer.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { beginOf, openEngine } from '../helpers/engine.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'

const LONG_AGO = 1_000_000_000

/** Fills a file system, in each way in which one can be full. */
const FULL: Readonly<Record<string, (disk: string) => void>> = {
  blocks(disk) {
    for (const bytes of [2 ** 21, 4096])
      try {
        writeFileSync(join(disk, `filler${bytes}`), Buffer.alloc(bytes))
      } catch {} // it is full now
  },
  inodes(disk) {
    try {
      for (let i = 0; ; i++) writeFileSync(join(disk, `filler${i}`), '')
    } catch {}
  },
}

/** Returns a spool on a full disk, with the dead letter `dead`, the task `failed`, which has failed, and two more. */
async function full(fill: (disk: string) => void): Promise<string> {
  const disk = smallDisk('size=1m,nr_inodes=100')
  const spool = join(disk, 'spool')
  mkdirSync(spool)
  const engine = await openEngine(spool)
  drop(spool, 'dead', packet({ n: 'dead' }))
  engine.settle(beginOf(engine, 'dead'), toOutcome({ bury: 'so' }), 0)
  for (const name of ['failed', 'first', 'second']) drop(spool, name, packet({ n: name }), LONG_AGO)
  engine.settle(beginOf(engine, 'failed'), toOutcome({ retry: '1h' }), 0)
  mkdirSync(join(spool, '.spoold/locks'), { mode: 0o700 }) // as a schedule makes it
  fill(disk)
  return spool
}

/** Matches the warning of a command that worked although its audit could not be written. */
const UNAUDITED = /^spoold: \S+: not in the audit: ENOSPC: [^\n]+\n$/

describe('a full disk', { skip: skipUnless('root', 'mount') }, () => {
  for (const [what, fill] of Object.entries(FULL)) {
    it(`does not prevent hold, release, kick, requeue and rm (no free ${what})`, async () => {
      const spool = await full(fill)
      const path = join(spool, 'first')
      const held = await spoold(['hold', path])
      assert.deepEqual([held.code, held.stdout], [0, `held ${path}\n`])
      assert.match(held.stderr, UNAUDITED)
      const lines = (await spoold(['ls', '--json', spool])).stdout.split('\n')
      assert.match(lines.find(line => line.includes('"first"')) ?? '', /"state":"held"/)
      const engine = await openEngine(spool)
      const refusal = engine.claim('first')
      assert.equal('kind' in refusal && refusal.kind, 'later')
      assert.equal((await spoold(['hold', path])).code, 0, 'again')
      assert.equal((await spoold(['release', path])).code, 0)
      assert.equal(statSync(path).mtimeMs, LONG_AGO * 1000)
      assert.equal((await spoold(['kick', join(spool, 'failed')])).code, 0)
      engine.release(beginOf(engine, 'failed'))
      const { stderr } = await spoold(['requeue', '--all', spool])
      assert.equal(stderr.replace(UNAUDITED, ''), '') // the kicked task may have left room
      assert.equal(leftIn(spool).length, 4)
      const again = leftIn(spool).find(name => readFileSync(join(spool, name)).includes('dead')) ?? ''
      engine.release(beginOf(engine, again))
      assert.equal((await spoold(['rm', join(spool, again)])).code, 0)
      assert.equal((await spoold(['rm', '--all', spool])).code, 0)
      assert.deepEqual(leftIn(spool), [])
    })

    it(`does not prevent purge (no free ${what})`, async () => {
      const spool = await full(fill)
      const { code, stderr } = await spoold(['purge', '--all', spool])
      assert.equal(code, 0)
      assert.match(stderr, UNAUDITED)
      assert.deepEqual(leftIn(join(spool, '.spoold/dead')), [])
    })

    it(`does not keep a daemon from starting, reloading, and running what makes room (no free ${what})`, async () => {
      const spool = await full(fill)
      const handler = `export default (env, task) => { JOURNAL(env.n); return task.SPOOL_OK }`
      const elsewhere = join(workspace(), 'spool')
      symlinkSync(spool, elsewhere)
      const daemon = await startDaemon({ spool: elsewhere, handler })
      await until('all due tasks have run', () => leftIn(spool).length === 1)
      assert.deepEqual(daemon.journal().sort(), ['first', 'second'])
      daemon.child.kill('SIGHUP')
      await daemon.waitFor(/the spoolers are reloaded|the reload is rejected/)
      assert.doesNotMatch(daemon.output, /the reload is rejected/)
      execFileSync('find', [join(spool, '..'), '-name', 'filler*', '-delete'])
      drop(spool, 'third', packet({ n: 'third' }))
      await until('the new task has run', () => daemon.journal().includes('third'))
    })
  }
})

describe('a read-only spool', { skip: skipUnless('root', 'mount') }, () => {
  it('makes each command fail with a sentence, without a stack', async () => {
    const spool = await full(() => {})
    drop(spool, 'two\nlines', packet({}), LONG_AGO)
    const disk = join(spool, '..')
    execFileSync('mount', ['-o', 'remount,ro', disk])
    for (const args of [
      ['rm', '--all', spool],
      ['kick', join(spool, 'first')],
      ['hold', join(spool, 'first')],
      ['requeue', '--all', spool],
      ['purge', '--all', spool],
    ]) {
      const { code, stderr } = await spoold(args)
      assert.equal(code, 1, args.join(' '))
      assert.match(stderr, /read-only|EROFS/, args.join(' '))
      assert.doesNotMatch(stderr, /^ {4}at /m, args.join(' '))
    }
    const listed = (await spoold(['ls', '--json', '--state', 'due', spool])).stdout.trim().split('\n')
    for (const line of listed)
      assert.equal(JSON.parse(line).detail, 'it cannot be claimed: EROFS: read-only file system')
    execFileSync('mount', ['-o', 'remount,rw', disk])
    assert.equal(leftIn(spool).length, 4)
  })
})
