import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { AbortTask, type BuryAnswer, fromThrown, RetryTask, toOutcome } from '#src/base/task/answer.js'
import { IGNORE, OK, RELEASE, RETRY } from '#src/base/task/outcome.js'
import type { Claims } from '#src/engines/spool/claims/claims.js'
import { DeadLetters } from '#src/engines/spool/dead-letters.js'
import { ONCE, RECORDED, STARTED } from '#src/engines/spool/state-byte.js'
import { beginOf, claimOf, crash, openEngine, POLICY, refusalOf } from '../../helpers/engine.js'
import { drop, leftIn, packet } from '../../helpers/files.js'
import { errnoError, hookFs } from '../../helpers/fs-hooks.js'
import { lettersIn } from '../../helpers/spools.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const LONG_AGO = 1_000_000_000

const letterOf = (spool: string, name = NAME) => new DeadLetters(spool).read(name)
const recordOf = (spool: string) =>
  JSON.parse(readFileSync(join(spool, '.spoold/records', `${NAME}.json`), 'utf8'))
const stateOf = (spool: string) => readFileSync(join(spool, NAME))[3] ?? 0
const touch = (spool: string) => utimesSync(join(spool, NAME), LONG_AGO, LONG_AGO)

/** Runs the task, and makes it due again at once. */
function runTo(engine: Claims, spool: string, outcome: ReturnType<typeof toOutcome>) {
  const report = engine.settle(beginOf(engine, NAME), outcome, 0)
  if (existsSync(join(spool, NAME))) touch(spool)
  return report
}

/** Begins the task without the wait that follows when a crash is found. */
function beginAtOnce(engine: Claims, spool: string) {
  const first = engine.claim(NAME)
  if ('kind' in first) touch(spool)
  else engine.release(first)
  return beginOf(engine, NAME)
}

describe('a task that fails', () => {
  it('is buried unchanged after spooler-max-attempts, with its reason, counts and last error', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, packet({ to: 'joe' }, 'a body'))
    const bytes = readFileSync(path, 'hex')
    const engine = await openEngine(spool, { policy: { ...POLICY, maxAttempts: 3 } })
    assert.equal(runTo(engine, spool, RETRY).kind, 'retry')
    assert.equal(runTo(engine, spool, fromThrown(new Error('second'))).kind, 'error')
    const report = runTo(engine, spool, fromThrown(new Error('third')))
    assert.equal(report.kind, 'buried')
    assert.match(report.detail ?? '', /it failed 3 times, as often as it may.*the last error: Error: third/s)
    assert.deepEqual(leftIn(spool), [])
    assert.equal(readFileSync(join(spool, '.spoold/dead', NAME), 'hex'), bytes)
    const letter = letterOf(spool)
    assert.deepEqual(
      [letter?.reason, letter?.attempts, letter?.crashes, letter?.ref, letter?.host, letter?.handlers],
      ['attempts', 3, 0, NAME, hostname(), ['/app/handler.js']],
    )
    assert.match(letter?.lastError ?? '', /^Error: third\n {4}at /)
    assert.deepEqual(leftIn(join(spool, '.spoold/records')), [])
  })

  it('has a record with the last ten of its failures', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    for (let n = 1; n <= 12; n++) runTo(engine, spool, toOutcome({ retry: true, reason: `number ${n}` }))
    const { attempts, history, lastError } = recordOf(spool)
    assert.deepEqual([attempts, history.length, lastError], [12, 10, 'number 12'])
    assert.deepEqual([history[0].kind, history[0].error], ['retry', 'number 3'])
  })

  it('runs again when its handler says, to the millisecond, and has that time as mtime', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    const engine = await openEngine(spool)
    const at = new Date(Date.now() + 1_234_567)
    const report = engine.settle(beginOf(engine, NAME), toOutcome({ retry: at }), 0)
    assert.ok(Math.abs((report.atMs ?? 0) - at.getTime()) < 1000)
    assert.equal(Math.floor(statSync(path).mtimeMs / 1000), Math.floor((report.atMs ?? 0) / 1000))
    touch(spool)
    const soon = engine.settle(beginOf(engine, NAME), toOutcome({ retry: '900ms', reason: 'soon' }), 0)
    await until('the task is due', () => !('kind' in engine.claim(NAME)))
    assert.ok(Date.now() >= (soon.atMs ?? Number.POSITIVE_INFINITY))
  })

  it('follows the retry rules of an answer from that answer on', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    runTo(engine, spool, toOutcome({ retry: true, maxAttempts: 2, backoff: 'fixed', retryDelay: '2h' }))
    assert.ok(recordOf(spool).nextRunAt > Date.now() + 7_190_000)
    assert.equal(runTo(engine, spool, RETRY).kind, 'buried')
  })

  it('waits longer each time under exponential backoff, at random, up to the cap', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool, { policy: { ...POLICY, backoff: 'exponential', capMs: 20_000 } })
    const bounds = [6, 12, 20, 20].map(seconds => seconds * 1000)
    for (const [n, capMs] of bounds.entries()) {
      const nowMs = Date.now()
      const { atMs = 0 } = runTo(engine, spool, RETRY)
      const waitsMs = atMs - nowMs
      assert.ok(waitsMs >= capMs / 2 && waitsMs <= capMs + 1000, `attempt ${n + 1} waits ${waitsMs}`)
    }
  })

  it('does not wait without backoff', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool, { policy: { ...POLICY, backoff: 'none' } })
    assert.ok((engine.settle(beginOf(engine, NAME), RETRY, 0).atMs ?? 0) <= Date.now())
    assert.equal(beginOf(engine, NAME).attempt, 2)
  })

  it('runs earlier after `touch`', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool)
    engine.settle(beginOf(engine, NAME), RETRY, 0)
    assert.equal(refusalOf(engine, NAME).kind, 'later')
    touch(spool)
    assert.equal(beginOf(engine, NAME).attempt, 2)
  })
})

describe('a handler that gives a task up', () => {
  for (const [how, outcome, reason] of [
    ['answers { bury }', toOutcome({ bury: 'no such customer' }), /^no such customer$/],
    ['answers { bury: true }', toOutcome({ bury: true }), /^the handler gave no reason$/],
    ['throws AbortTask', fromThrown(new AbortTask('no such customer')), /^no such customer$/],
  ] as const)
    it(`${how}: the task is a dead letter at once`, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME)
      const engine = await openEngine(spool)
      assert.equal(engine.settle(beginOf(engine, NAME), outcome, 0).kind, 'buried')
      const letter = letterOf(spool)
      assert.deepEqual([letter?.reason, letter?.attempts], ['asked', 1])
      assert.match(letter?.detail ?? '', reason)
    })

  it('may throw RetryTask with the options of a retry', async () => {
    const outcome = fromThrown(new RetryTask({ retry: '5m', reason: 'later', maxAttempts: 7 }))
    assert.ok(outcome.kind === 'retry')
    assert.deepEqual([outcome.delayMs, outcome.policy], [300_000, { maxAttempts: 7 }])
    assert.match(outcome.detail ?? '', /^later$/)
  })

  it('may throw RetryTask with a time, and gets an error at once if that is no valid time', () => {
    const at = new Date(Date.now() + 60_000)
    const outcome = fromThrown(new RetryTask({ at, reason: 'later' }))
    assert.ok(outcome.kind === 'retry')
    assert.ok((outcome.delayMs ?? 0) > 50_000 && (outcome.delayMs ?? 0) <= 60_000)
    for (const options of [
      { at: new Date('never') },
      { at: '2030-01-01' },
      { at: null },
      { at, retry: '5m' },
    ])
      assert.throws(
        () => new RetryTask(options as never),
        /RetryTask: (at must be a valid Date, got|give at or retry, not both)/,
      )
  })

  it('gets an error at once for a RetryTask with an option that does not exist', () => {
    assert.throws(
      () => new RetryTask({ retry: '5m', maxAttemps: 3 } as never),
      /RetryTask: there is no option maxAttemps; expected one of at, retry, reason, cause, maxAttempts/,
    )
    class Busy extends RetryTask {
      readonly customer = 7
    }
    assert.equal(fromThrown(new Busy({ retry: '5m' })).kind, 'retry', 'a property of its own')
  })

  for (const answer of [{ bury: '' }, { bury: ' ' }, { bury: true }])
    it(`that answers ${JSON.stringify(answer)} gave no reason, and the record says so`, () => {
      assert.deepEqual(toOutcome(answer), { kind: 'bury', detail: 'the handler gave no reason' })
    })

  it('may give the reason in bury, beside it, or in both', () => {
    for (const [answer, detail] of [
      [{ bury: true, reason: 'gone' }, 'gone'],
      [{ bury: 'no such customer', reason: 'gone' }, 'no such customer: gone'],
      [{ bury: '', reason: new Error('gone') }, 'gone'],
      [{ bury: true, reason: 410 }, '410'],
    ] as const) {
      assert.deepEqual(toOutcome(answer), { kind: 'bury', detail })
      assert.deepEqual(fromThrown(new AbortTask(answer as BuryAnswer)), { kind: 'bury', detail })
    }
  })

  it('that gives an empty reason leaves no empty line', () => {
    assert.deepEqual(fromThrown(new AbortTask('')), { kind: 'bury', detail: 'the task is given up' })
    assert.deepEqual(fromThrown(new RetryTask({ reason: '' })), {
      kind: 'retry',
      detail: 'the task is to run again',
    })
    assert.deepEqual(toOutcome({ retry: true, reason: '' }), RETRY)
  })

  it('may give keys that say nothing, and keys of its own beside what never runs again', () => {
    assert.deepEqual(toOutcome({ retry: true, bury: undefined, maxAttempts: undefined, done: false }), RETRY)
    assert.deepEqual(toOutcome({ retry: undefined, bury: 'gone', status: 410 }), {
      kind: 'bury',
      detail: 'gone',
    })
    assert.equal(toOutcome({ done: true, sent: 5 }), OK)
  })

  for (const [answer, why] of [
    [{ retry: 'soon' }, /wrong retry: expected true, seconds, a text such as '5m', or a Date, got "soon"/],
    [{ retry: new Date('never') }, /wrong retry/],
    [{ retry: -1 }, /wrong retry/],
    [{ retry: true, maxAttempts: 1.5 }, /wrong maxAttempts: expected a whole number from 0, got 1.5/],
    [{ retry: true, backoff: 'linear' }, /wrong backoff: expected none, fixed or exponential, got "linear"/],
    [{ bury: 7 }, /wrong bury: expected a reason or true, got 7/],
    [
      { retry: true, maxAttemps: 3 },
      /the unknown key maxAttemps; expected some of retry, reason, maxAttempts, maxCrashes, backoff, retryDelay, backoffCap/,
    ],
    [{ retry: true, reason: 5 }, /wrong reason: expected a text, got 5/],
    [{ retry: true, bury: 'x' }, /has retry and bury; expected one of retry, bury and done/],
    [{ retry: true, done: true }, /has retry and done/],
    [{ retries: 3 }, /the handler returned an object \(Object\) with "retries"; expected SPOOL_OK/],
    [{ status: 200 }, /the handler returned an object \(Object\) with "status"; expected SPOOL_OK/],
    [{ done: 'yes' }, /expected SPOOL_OK/],
    [{}, /the handler returned an object/],
    [undefined, /the handler returned undefined/],
  ] as const)
    it(`that answers ${JSON.stringify(answer)} is reported, and the task is retried`, () => {
      const outcome = toOutcome(answer)
      assert.ok(outcome.kind === 'error')
      assert.match(outcome.detail, why)
      assert.match(outcome.detail, /so the task is retried$/)
    })
})

describe('a task that kills its process', () => {
  it('is buried when it has done so spooler-max-crashes times, with the known cause of the last crash', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    for (let n = 1; n <= 3; n++) {
      beginAtOnce(await openEngine(spool), spool)
      crash(spool, NAME)
    }
    const report = (await openEngine(spool)).claim(NAME, {
      kind: 'crash',
      cause: 'its process was killed by SIGSEGV',
    })
    assert.ok('kind' in report)
    assert.equal(report.kind, 'set-aside')
    const letter = letterOf(spool)
    assert.deepEqual([letter?.reason, letter?.crashes], ['crashes', 3])
    assert.equal(letter?.lastError, 'its process was killed by SIGSEGV')
    assert.equal(readFileSync(join(spool, '.spoold/dead', NAME))[3], 0, 'the state byte is unchanged')
  })

  it('keeps its crash on record after a run that all handlers ignored', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    beginOf(await openEngine(spool), NAME)
    crash(spool, NAME)
    const engine = await openEngine(spool)
    engine.settle(beginAtOnce(engine, spool), IGNORE, 0)
    assert.equal(stateOf(spool), RECORDED)
    assert.equal(beginOf(engine, NAME).attempt, 2)
  })

  it('is run for ever with spooler-max-crashes = 0', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    for (let n = 1; n <= 6; n++) {
      const engine = await openEngine(spool, { policy: { ...POLICY, maxCrashes: 0 } })
      assert.equal(beginAtOnce(engine, spool).attempt, n)
      crash(spool, NAME)
    }
  })
})

describe('a task that is delivered at most once', () => {
  const AT_MOST_ONCE = { delivery: 'at-most-once' } as const

  for (const [by, settings, vars] of [
    ['the option', AT_MOST_ONCE, { a: 'b' }],
    ['its own key', {}, { spooler_delivery: 'at-most-once' }],
  ] as const)
    it(`by ${by}, is marked before it runs, and does not run again after a crash`, async () => {
      const spool = spoolDirectory()
      drop(spool, NAME, packet(vars), LONG_AGO)
      beginOf(await openEngine(spool, settings), NAME)
      assert.equal(stateOf(spool), STARTED | ONCE)
      crash(spool, NAME)
      const refusal = refusalOf(await openEngine(spool), NAME)
      assert.equal(refusal.kind, 'set-aside')
      assert.equal(letterOf(spool)?.reason, 'outcome-unknown')
    })

  it('is not started, and has no mark, while the mark cannot be synced to disk', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool, AT_MOST_ONCE)
    const restore = hookFs(['fdatasyncSync'], (call, [fd]) => {
      throw errnoError('EIO', call, fd)
    })
    try {
      const refusal = engine.begin(claimOf(engine, NAME), 'alone')
      assert.equal(refusal?.kind, 'unreadable')
      assert.match(refusal.detail ?? '', /was not started, because its run cannot be marked.*EIO/)
    } finally {
      restore()
    }
    assert.equal(stateOf(spool), 0)
    assert.equal(beginOf(engine, NAME).attempt, 1)
  })

  it('is set aside even if its run was blameless, because how far it came is unknown', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    beginOf(await openEngine(spool, AT_MOST_ONCE), NAME)
    crash(spool, NAME)
    const report = (await openEngine(spool, AT_MOST_ONCE)).claim(NAME, { kind: 'blameless' })
    assert.ok('kind' in report && report.kind === 'set-aside')
  })

  it('is buried when its run was cut short with the others of its process', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool, AT_MOST_ONCE)
    assert.equal(engine.settle(beginOf(engine, NAME), RELEASE, 0).kind, 'buried')
  })

  it('runs again if it asks for a retry or was ignored, because its outcome is known then', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const engine = await openEngine(spool, AT_MOST_ONCE)
    runTo(engine, spool, IGNORE)
    assert.equal(stateOf(spool), 0)
    runTo(engine, spool, RETRY)
    assert.equal(stateOf(spool), RECORDED)
    assert.equal(runTo(engine, spool, OK).kind, 'ok')
  })

  it('is delivered at least once if its own key says so', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, packet({ spooler_delivery: 'at-least-once' }))
    beginOf(await openEngine(spool, AT_MOST_ONCE), NAME)
    assert.equal(stateOf(spool), STARTED)
  })
})

describe('a file that is no task', () => {
  const BAD = Buffer.from([5, 0, 0, 0])

  for (const [what, bytes, reason] of [
    ['with another modifier1', BAD, 'malformed'],
    ['with three bytes', Buffer.from([17, 0, 0]), 'incomplete'],
    ['with nothing', Buffer.alloc(0), 'incomplete'],
    ['cut in its block', packet({ key: 'value' }).subarray(0, 9), 'incomplete'],
  ] as const)
    it(`${what}, is buried under a name of uWSGI's when its grace is over`, async () => {
      const spool = spoolDirectory()
      writeFileSync(join(spool, NAME), bytes)
      const patient = await openEngine(spool)
      assert.equal(refusalOf(patient, NAME).kind, reason)
      const engine = await openEngine(spool, { graceMs: 0 })
      await until('the file is buried', () => refusalOf(engine, NAME).kind === 'set-aside')
      assert.deepEqual(readFileSync(join(spool, '.spoold/dead', NAME)), Buffer.from(bytes))
      assert.equal(letterOf(spool)?.reason, reason)
    })

  it('is left alone under a free name, because it may be anybody’s', async () => {
    const spool = spoolDirectory()
    writeFileSync(join(spool, 'notes.txt'), BAD)
    const engine = await openEngine(spool, { graceMs: 0 })
    assert.equal(refusalOf(engine, 'notes.txt').kind, 'malformed')
    assert.deepEqual(leftIn(spool), ['notes.txt'])
  })
})

describe('burying', () => {
  it('keeps namesakes apart, and priorities in their directories', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const engine = await openEngine(spool)
    for (const ref of [NAME, NAME, `5/${NAME}`, `${NAME}.json`]) {
      drop(spool, ref, packet({ from: ref }))
      engine.settle(beginOf(engine, ref), toOutcome({ bury: ref }), 0)
    }
    const letters: string[] = []
    for await (const { name, letter } of lettersIn(spool)) letters.push(`${name} was ${letter?.ref}`)
    assert.deepEqual(letters.sort(), [
      `5/${NAME} was 5/${NAME}`,
      `${NAME} was ${NAME}`,
      `${NAME}.2 was ${NAME}`,
      `${NAME}.json.2 was ${NAME}.json`,
    ])
  })

  it('keeps namesakes with the longest possible name apart, and finds them again', async () => {
    const spool = spoolDirectory()
    const name = `uwsgi_spoolfile_on_${'x'.repeat(236)}`
    const engine = await openEngine(spool)
    for (let n = 1; n <= 3; n++) {
      drop(spool, name, packet({ n: String(n) }))
      assert.equal(engine.settle(beginOf(engine, name), toOutcome({ bury: String(n) }), 0).kind, 'buried')
    }
    const letters: string[] = []
    for await (const { letter } of lettersIn(spool)) {
      assert.equal(letter?.ref, name)
      letters.push(letter.detail)
    }
    assert.deepEqual(letters.sort(), ['1', '2', '3'])
  })

  it('that fails keeps the task without running it, and is tried again', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    mkdirSync(join(spool, '.spoold'))
    writeFileSync(join(spool, '.spoold/dead'), 'in the way')
    const engine = await openEngine(spool, { policy: { ...POLICY, maxAttempts: 1 } })
    const report = runTo(engine, spool, RETRY)
    assert.equal(report.kind, 'unsettled')
    assert.match(report.detail ?? '', /is to be buried, but cannot be: .*dead is not a directory; remove it/)
    assert.equal(refusalOf(engine, NAME).kind, 'later', 'reported once, and not run')
    touch(spool)
    unlinkSync(join(spool, '.spoold/dead'))
    assert.equal(refusalOf(engine, NAME).kind, 'set-aside')
    assert.equal(letterOf(spool)?.reason, 'attempts')
  })

  it('that fails where no record can be written either runs no task that is delivered at most once', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    mkdirSync(join(spool, '.spoold'))
    for (const room of ['dead', 'records']) writeFileSync(join(spool, '.spoold', room), 'in the way')
    const settings = { delivery: 'at-most-once' } as const
    beginOf(await openEngine(spool, settings), NAME)
    crash(spool, NAME)
    for (let n = 1; n <= 3; n++) {
      assert.equal(refusalOf(await openEngine(spool, settings), NAME).kind, 'unsettled')
      touch(spool)
    }
    for (const room of ['dead', 'records']) unlinkSync(join(spool, '.spoold', room))
    assert.equal(refusalOf(await openEngine(spool, settings), NAME).kind, 'set-aside')
    assert.equal(letterOf(spool)?.reason, 'outcome-unknown')
  })

  it('never follows a link out of the spool', async () => {
    const [spool, elsewhere] = [spoolDirectory(), spoolDirectory()]
    drop(spool, NAME)
    mkdirSync(join(spool, '.spoold'))
    for (const room of ['dead', 'records']) symlinkSync(elsewhere, join(spool, '.spoold', room))
    const engine = await openEngine(spool)
    engine.settle(beginOf(engine, NAME), toOutcome({ bury: 'x' }), 0)
    assert.deepEqual(leftIn(elsewhere), [])
    assert.deepEqual(leftIn(spool), [NAME])
  })

  it('touches nothing but the file that ran, and leaves a file that took its place', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME, packet({ n: '1' }))
    const engine = await openEngine(spool)
    const claim = beginOf(engine, NAME)
    crash(spool, NAME) // another inode under the same name
    engine.settle(claim, toOutcome({ bury: 'x' }), 0)
    assert.deepEqual(leftIn(spool), [NAME])
    assert.ok(!existsSync(join(spool, '.spoold/dead')))
  })
})
