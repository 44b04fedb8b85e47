import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, readlinkSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { fromThrown, toOutcome } from '#src/base/task/answer.js'
import { IGNORE, OK, type Outcome, RETRY } from '#src/base/task/outcome.js'
import { sweepSpool } from '#src/engines/spool/admin/sweep.js'
import type { Claims } from '#src/engines/spool/claims/claims.js'
import { enqueueSync, SpooldError } from '#src/index.js'
import { openEngine, POLICY } from '../helpers/engine.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { errnoError, FS_CALLS, type FsCall, hookFs } from '../helpers/fs-hooks.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'

const ERRORS = [
  'EIO',
  'ENOSPC',
  'EDQUOT',
  'EROFS',
  'EMFILE',
  'ENFILE',
  'EACCES',
  'ESTALE',
  'EINTR',
  'ENOENT',
] as const

const LONG_AGO = 1_000_000_000
const NAMED = (n: string) => `uwsgi_spoolfile_on_host_1_${n}`

/** What the handler of each task answers the first time. Afterwards it answers SPOOL_OK. */
const ANSWERS: Readonly<Record<string, () => Outcome>> = {
  ok: () => OK,
  'big-body': () => OK,
  'failed-before': () => OK,
  'crashed-before': () => OK,
  once: () => OK,
  retry: () => RETRY,
  throw: () => fromThrown(new Error('thrown')),
  'last-try': () => toOutcome({ retry: true, maxAttempts: 1 }),
  bury: () => toOutcome({ bury: 'no such customer' }),
  'ignore-me': () => IGNORE,
}
/** Tasks that run once, whatever fails around them, because their first run was done. */
const DONE_AT_ONCE = ['ok', 'big-body', 'failed-before', 'crashed-before', 'once']
/** Tasks that may also end as dead letters. */
const MAY_BE_DEAD = ['last-try', 'bury', 'once', 'malformed']

class Script {
  readonly spool = spoolDirectory()
  readonly starts = new Map<string, number>()
  /** How many runs ended with SPOOL_OK, by task. */
  readonly done = new Map<string, number>()

  /** Fills the spool with tasks, of which some have failed before, and one has killed its process. */
  async setUp(): Promise<void> {
    const policy = { ...POLICY, backoff: 'none' as const, maxCrashes: 0 }
    for (const n of Object.keys(ANSWERS)) {
      const once = n === 'once' ? { spooler_delivery: 'at-most-once' } : {}
      drop(
        this.spool,
        NAMED(n),
        packet({ n, ...once }, n === 'big-body' ? Buffer.alloc(1_500_000) : ''),
        LONG_AGO,
      )
    }
    drop(this.spool, NAMED('malformed'), Buffer.from([5, 0, 0, 0]), LONG_AGO)
    const engine = await openEngine(this.spool, { policy })
    const failed = engine.claim(NAMED('failed-before'))
    if (!('kind' in failed) && engine.begin(failed, 'alone') === undefined) engine.settle(failed, RETRY, 0)
    engine.rest(true)
    drop(
      this.spool,
      NAMED('crashed-before'),
      Buffer.from(packet({ n: 'crashed-before' })).fill(0x80, 3, 4),
      LONG_AGO,
    )
    this.touch()
  }

  touch(): void {
    // To touch the malformed file would begin its grace anew.
    for (const name of leftIn(this.spool).filter(each => each !== NAMED('malformed')))
      utimesSync(join(this.spool, name), LONG_AGO, LONG_AGO)
  }

  /** Claims, runs and settles every task that is there, once. */
  run(engine: Claims, answers: typeof ANSWERS): void {
    for (const name of readdirSync(this.spool)
      .filter(each => !each.startsWith('.'))
      .sort()) {
      const claim = engine.claim(name)
      if ('kind' in claim || engine.begin(claim, 'alone') !== undefined) continue
      const n = name.slice(NAMED('').length)
      this.starts.set(n, (this.starts.get(n) ?? 0) + 1)
      const answer = answers[n] ?? (() => OK)
      let outcome: Outcome
      try {
        claim.readBody()
        outcome = answer()
      } catch (error) {
        outcome = fromThrown(error)
      }
      if (outcome.kind === 'ok') this.done.set(n, (this.done.get(n) ?? 0) + 1)
      engine.settle(claim, outcome, 2)
    }
    engine.rest(true) // as a worker does that waits for more tasks
  }

  open(): Promise<Claims> {
    return openEngine(this.spool, {
      policy: { ...POLICY, backoff: 'none', maxCrashes: 0 },
      frequencyMs: 0,
      graceMs: 0,
    })
  }

  /** Runs to its end what is left, with every call working again. */
  async recover(): Promise<void> {
    const engine = await this.open()
    for (let round = 0; round < 5; round++) {
      this.touch()
      this.run(engine, {})
    }
    await sweepSpool({ spool: this.spool, graceMs: 1, idTtlMs: 0 })
  }

  async assertKept(what: string): Promise<void> {
    const dead = await deadOf(this.spool)
    assert.deepEqual(
      leftIn(this.spool).filter(name => !name.includes('-done-')),
      [],
      `${what}: these are stuck`,
    )
    for (const n of [...Object.keys(ANSWERS), 'malformed']) {
      const starts = this.starts.get(n) ?? 0
      const isDead = dead.has(n) || [...dead.values()].some(({ ref }) => ref === NAMED(n))
      assert.ok(isDead || starts > 0, `${what}: ${n} is lost`)
      assert.ok(!isDead || MAY_BE_DEAD.includes(n), `${what}: ${n} is dead: ${dead.get(n)?.detail}`)
      // A file system that denies that a file is there makes the task run again.
      if (DONE_AT_ONCE.includes(n) && !what.startsWith('ENOENT at'))
        assert.ok((this.done.get(n) ?? 0) <= 1, `${what}: ${n} was done ${this.done.get(n)} times`)
      if (n === 'once') assert.ok(starts <= 1, `${what}: ${n} ran ${starts} times`)
    }
  }
}

let unhook = () => {}
afterEach(() => unhook())

/** Counts the calls, and makes the one with this number fail. @returns the calls that were made */
function failAt(number: number, code: string): FsCall[] {
  const calls: FsCall[] = []
  unhook = hookFs(FS_CALLS, (name, args, proceed) => {
    calls.push(name)
    if (calls.length !== number) return proceed()
    const isAsked = name === 'lstatSync' && code === 'ENOENT' // with throwIfNoEntry: false
    if (isAsked) return undefined
    throw errnoError(code, name, args[0])
  })
  return calls
}

/** Counts the open descriptors without `.spoold`, which is kept open between its uses. */
const openFiles = () =>
  readdirSync('/proc/self/fd').filter(fd => !targetOf(fd).replace(' (deleted)', '').endsWith('/.spoold'))
    .length

function targetOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`)
  } catch {
    return ''
  }
}

describe('an error at any file operation', () => {
  it('of a worker loses no task, runs no done task again, throws nothing, and leaves no descriptor open', async t => {
    const whole = new Script()
    await whole.setUp()
    const engine = await whole.open()
    const calls = failAt(0, '')
    whole.run(engine, ANSWERS)
    unhook()
    await whole.recover()
    await whole.assertKept('without an error')
    assert.ok(calls.length > 80, `${calls.length} calls`)
    let cases = 0
    const before = openFiles()
    for (let n = 1; n <= calls.length; n++)
      for (const [i, code] of ERRORS.entries()) {
        if (!isLong && n % ERRORS.length !== i) continue
        const script = new Script()
        await script.setUp()
        const worker = await script.open()
        failAt(n, code)
        script.run(worker, ANSWERS)
        unhook()
        const what = `${code} at call ${n}, ${calls[n - 1]}`
        await script.recover()
        await script.assertKept(what)
        assert.equal(openFiles(), before, what)
        cases++
      }
    t.diagnostic(`${cases} cases over ${calls.length} calls`)
  })

  for (const [way, options] of Object.entries({
    synced: { sync: true },
    'not synced': { sync: false },
    'with a time and a body': { sync: true, at: 1e9, body: 'x'.repeat(100_000) },
    'with a priority': { sync: true, priority: 5 },
    'with an id': { sync: true, id: 'a' },
  }))
    it(`of a writer (${way}) reaches the writer, and its second try leaves one task`, async () => {
      const store = (spooler: string) => enqueueSync({ n: 1 }, { spooler, ...options })
      store(spoolDirectory()) // loads what is loaded when it is first needed
      const calls = failAt(0, '')
      store(spoolDirectory())
      unhook()
      const before = openFiles()
      for (let n = 1; n <= calls.length; n++)
        for (const code of isLong ? ERRORS : (['EIO', 'ENOSPC'] as const)) {
          const spool = spoolDirectory()
          const what = `${code} at call ${n}, ${calls[n - 1]}`
          failAt(n, code)
          let hasError = false
          try {
            store(spool)
          } catch (error) {
            hasError = true
            assert.ok(error instanceof SpooldError, `${what}: ${error}`)
          }
          unhook()
          const tasks = () => leftIn(spool).filter(name => !name.startsWith('.') && !name.includes('/.'))
          // A rename that denies that there is something to rename leaves a promise, which the sweep makes good.
          if (!hasError)
            await until(`${what}: the writer got no error, and there is one task`, async () => {
              if (tasks().length === 0) await sweepSpool({ spool, graceMs: 0.001, idTtlMs: 0 })
              return tasks().length === 1
            })
          else {
            if (!('id' in options)) assert.deepEqual(tasks(), [], what)
            store(spool)
            assert.equal(tasks().length, 1, what)
          }
          assert.ok(existsSync(spool) && readFileSync(join(spool, tasks()[0] ?? ''))[0] === 17)
        }
      // A process of root holds a spool for a second.
      await until('no file of the spool is open', () => openFiles() <= before, 10_000)
    })
})
