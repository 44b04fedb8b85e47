import assert from 'node:assert/strict'
import { readFileSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { toOutcome } from '#src/base/task/answer.js'
import { RETRY } from '#src/base/task/outcome.js'
import { RECORDED, STARTED } from '#src/engines/spool/state-byte.js'
import { beginOf, claimOf, crash, openEngine, POLICY, refusalOf } from '../../helpers/engine.js'
import { drop, packet } from '../../helpers/files.js'
import { errnoError, type FsCall, hookFs } from '../../helpers/fs-hooks.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const LONG_AGO = 1_000_000_000
const ONCE = { spooler_delivery: 'at-most-once' }

const recordOf = (spool: string) =>
  JSON.parse(readFileSync(join(spool, '.spoold/records', `${NAME}.json`), 'utf8'))
const stateOf = (spool: string) => readFileSync(join(spool, NAME))[3] ?? 0

let unhook = () => {}
afterEach(() => unhook())

/** Makes this call fail from now on, as if the process had died before it. */
function dieBefore(call: FsCall): void {
  unhook = hookFs([call], (name, [path, bytes], proceed) => {
    if (name === 'writeSync' && Buffer.isBuffer(bytes) && bytes.length > 1) return proceed() // not the state byte
    throw errnoError('EIO', name, path)
  })
}

describe('a failed run whose worker dies while it is settled', () => {
  for (const [what, vars] of [
    ['at least once', {}],
    ['at most once', ONCE],
  ] as const)
    it(`between record and state byte, ${what}: the run counts once, and the task waits as asked`, async () => {
      const spool = spoolDirectory()
      const path = drop(spool, NAME, packet(vars))
      const policy = { ...POLICY, maxAttempts: 2 }
      const engine = await openEngine(spool, { policy })
      const claim = beginOf(engine, NAME)
      dieBefore('writeSync')
      engine.settle(claim, toOutcome({ retry: '30s' }), 0)
      unhook()
      assert.equal(stateOf(spool) & STARTED, STARTED)
      const later = refusalOf(await openEngine(spool, { policy }), NAME)
      assert.equal(later.kind, 'later')
      assert.ok((later.atMs ?? 0) > Date.now() + 25_000)
      assert.equal(stateOf(spool), RECORDED)
      assert.ok(statSync(path).mtimeMs > Date.now() + 25_000)
      const { attempts, crashes } = recordOf(spool)
      assert.deepEqual([attempts, crashes], [1, 0])
    })

  it('between state byte and mtime: the task does not run too early', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    const engine = await openEngine(spool)
    const claim = beginOf(engine, NAME)
    dieBefore('futimesSync')
    engine.settle(claim, toOutcome({ retry: '30s' }), 0)
    unhook()
    assert.equal(stateOf(spool), RECORDED)
    assert.ok(statSync(path).mtimeMs < Date.now() + 1)
    const later = refusalOf(engine, NAME)
    assert.equal(later.kind, 'later')
    assert.ok((later.atMs ?? 0) > Date.now() + 25_000)
    assert.ok(statSync(path).mtimeMs > Date.now() + 25_000, 'a plain uWSGI waits, too')
    await setTimeout(300)
    const now = Date.now() / 1000
    utimesSync(path, now, now) // a person's touch
    assert.equal(claimOf(engine, NAME).attempt, 2)
  })

  it('at any step of counting a crash: the crash counts once', async () => {
    for (const call of ['writeSync', 'futimesSync'] as const) {
      const spool = spoolDirectory()
      drop(spool, NAME)
      beginOf(await openEngine(spool), NAME)
      crash(spool, NAME)
      const engine = await openEngine(spool)
      dieBefore(call)
      engine.claim(NAME)
      unhook()
      for (let n = 1; n <= 3; n++) {
        const next = engine.claim(NAME)
        if (!('kind' in next)) engine.release(next)
      }
      const { attempts, crashes } = recordOf(spool)
      assert.deepEqual([attempts, crashes], [1, 1], call)
    }
  })
})

describe('the record of an older file of the same name', () => {
  it('is ignored if the state byte of the new file announces no record', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    for (let n = 1; n <= 2; n++) {
      engine.settle(beginOf(engine, NAME), RETRY, 0)
      utimesSync(join(spool, NAME), LONG_AGO, LONG_AGO)
    }
    drop(spool, NAME) // a new task, over the old one
    beginOf(engine, NAME)
    crash(spool, NAME)
    const claim = claimOf(await openEngine(spool), NAME)
    assert.deepEqual([claim.record?.attempts, claim.record?.crashes], [1, 1])
  })
})

describe('a run where file times are whole seconds', () => {
  /** Makes every mtime a whole second, as on ext4 with small inodes. */
  const coarse = () => {
    unhook = hookFs(['fstatSync'], (_name, _args, proceed) => {
      const stats = proceed() as { mtimeMs: number; ctimeMs: number } | bigint
      if (typeof stats !== 'object' || typeof stats.mtimeMs !== 'number') return stats
      return Object.assign(stats, { mtimeMs: Math.floor(stats.mtimeMs / 1000) * 1000 })
    })
  }

  for (const [what, vars, kind] of [
    ['at least once', {}, 'crash'],
    ['at most once', ONCE, 'set-aside'],
  ] as const)
    it(`is not mistaken for the run before it, which was counted (${what})`, async () => {
      const spool = spoolDirectory()
      const policy = { ...POLICY, backoff: 'none' as const }
      coarse()
      for (let n = 1; n <= 5; n++) {
        drop(spool, NAME, packet(vars), LONG_AGO)
        const engine = await openEngine(spool, { policy })
        engine.settle(beginOf(engine, NAME), RETRY, 0)
        beginOf(engine, NAME) // within the same second, mostly
        const before = statSync(join(spool, NAME)).mtimeMs
        crash(spool, NAME)
        assert.ok(Math.abs(statSync(join(spool, NAME)).mtimeMs - before) < 1)
        const next = (await openEngine(spool, { policy })).claim(NAME)
        if (kind === 'set-aside') assert.equal('kind' in next && next.kind, kind)
        else assert.deepEqual([recordOf(spool).attempts, recordOf(spool).crashes], [2, 1])
      }
    })
})
