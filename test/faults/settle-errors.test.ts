import assert from 'node:assert/strict'
import { existsSync, readFileSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { fromThrown, toOutcome } from '#src/base/task/answer.js'
import { IGNORE, OK, type Outcome, RETRY } from '#src/base/task/outcome.js'
import { sweepSpool } from '#src/engines/spool/admin/sweep.js'
import { claimOf, openEngine, POLICY } from '../helpers/engine.js'
import { drop, packet } from '../helpers/files.js'
import { errnoError, FS_CALLS, type FsCall, hookFs } from '../helpers/fs-hooks.js'
import { isLong } from '../helpers/requires.js'
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
  'EPERM',
  'ESTALE',
  'ENOENT',
] as const
const LONG_AGO = 1_000_000_000
const NAME = 'uwsgi_spoolfile_on_x'
const FREE = 'report'

interface Scenario {
  readonly name: string
  readonly delivery: 'at-most-once' | 'at-least-once'
  readonly outcome: () => Outcome
  readonly ranMs?: number
}

const ONCE = { name: NAME, delivery: 'at-most-once' } as const
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'at most once, done': { ...ONCE, outcome: () => OK },
  'at most once, done under a free name': { ...ONCE, name: FREE, ranMs: 5, outcome: () => OK },
  'at most once, retried': { ...ONCE, outcome: () => RETRY },
  'at most once, failed': { ...ONCE, outcome: () => fromThrown(new Error('x')) },
  'at most once, failed for the last time': {
    ...ONCE,
    outcome: () => toOutcome({ retry: true, maxAttempts: 1 }),
  },
  'at most once, buried by its handler': { ...ONCE, outcome: () => toOutcome({ bury: 'so' }) },
  'at most once, ignored': { ...ONCE, outcome: () => IGNORE },
  'buried by its handler': {
    name: NAME,
    delivery: 'at-least-once',
    outcome: () => toOutcome({ bury: 'so' }),
  },
}

type Refuses = (calls: number, call: FsCall, args: readonly unknown[]) => boolean

/** Which calls are refused, the n-th being the first. */
const MODES: Readonly<Record<string, (n: number) => Refuses>> = {
  once: n => calls => calls === n,
  'from then on, where something is made or removed': n => (calls, call, args) =>
    calls >= n && MAKING.includes(call) && !isInPlace(call, args),
  'from then on': n => calls => calls >= n,
}
const MAKING: readonly FsCall[] = [
  'openSync',
  'writeSync',
  'writeFileSync',
  'renameSync',
  'linkSync',
  'unlinkSync',
  'mkdirSync',
]
const isInPlace = (call: FsCall, [, bytes]: readonly unknown[]) =>
  call === 'writeSync' && Buffer.isBuffer(bytes) && bytes.length === 1

let unhook = () => {}
afterEach(() => unhook())

function refuse(refuses: Refuses, code: string): FsCall[] {
  const calls: FsCall[] = []
  unhook = hookFs(FS_CALLS, (call, args, proceed) => {
    calls.push(call)
    if (!refuses(calls.length, call, args)) return proceed()
    const isAsked = call === 'lstatSync' && code === 'ENOENT' // with throwIfNoEntry: false
    if (isAsked) return undefined
    throw errnoError(code, call, args[0])
  })
  return calls
}

const open = (spool: string) =>
  openEngine(spool, { policy: { ...POLICY, backoff: 'none', maxCrashes: 0 }, frequencyMs: 0 })

interface Ended {
  readonly calls: readonly FsCall[]
  readonly starts: number
  /** True if one of the runs ended with SPOOL_OK. */
  readonly isDone: boolean
  /** True if the retry stood in a record, or in the file, before the task ran again. */
  readonly isRetryKnown: boolean
  readonly end: 'gone' | 'dead' | 'waits'
}

/** Runs the task once, with calls refused from its beginning to its end; then restarts with no call refused. */
async function run(scenario: Scenario, refuses: Refuses, code: string): Promise<Ended> {
  const { name, delivery, outcome, ranMs = 0 } = scenario
  const spool = spoolDirectory()
  const path = drop(spool, name, packet({ spooler_delivery: delivery }), LONG_AGO)
  const engine = await open(spool)
  const claim = claimOf(engine, name)
  const calls = refuse(refuses, code)
  let [starts, isDone] = [0, false]
  if (engine.begin(claim, 'alone') === undefined) {
    starts++
    isDone = outcome().kind === 'ok'
    engine.settle(claim, outcome(), ranMs)
  }
  unhook()
  const record = join(spool, '.spoold/records', `${name}.json`)
  const isCounted = existsSync(record) && JSON.parse(readFileSync(record, 'utf8')).attempts > 0
  const isReset = existsSync(path) && ((readFileSync(path)[3] ?? 0) & 0x80) === 0
  const restarted = await open(spool)
  for (let round = 0; round < 6; round++) {
    if (existsSync(path)) utimesSync(path, LONG_AGO, LONG_AGO)
    const next = restarted.claim(name)
    if ('kind' in next || restarted.begin(next, 'alone') !== undefined) continue
    starts++
    isDone = true
    restarted.settle(next, OK, 0)
  }
  await sweepSpool({ spool, graceMs: 0.001, idTtlMs: 0 })
  const isDead = (await deadOf(spool)).size > 0
  return {
    calls,
    starts,
    isDone,
    isRetryKnown: isCounted || isReset,
    end: existsSync(path) ? 'waits' : isDead ? 'dead' : 'gone',
  }
}

function check(
  what: string,
  { delivery, outcome }: Scenario,
  ended: Ended,
  code: string,
  mode: string,
): void {
  const { starts, isDone, isRetryKnown, end } = ended
  const { kind } = outcome()
  assert.notEqual(end, 'waits', `${what}: it is stuck`)
  const mayRepeat = kind === 'retry' || kind === 'error' || kind === 'ignore'
  if (delivery === 'at-most-once')
    assert.ok(starts <= 1 || (mayRepeat && isRetryKnown), `${what}: it was started ${starts} times`)
  // A file system that forgets even the byte, or denies that the file is there, makes the task run again.
  else if (code !== 'ENOENT' && mode !== 'from then on')
    assert.ok(starts <= 1, `${what}: it was started ${starts} times`)
  assert.ok(isDone || end === 'dead', `${what}: it is lost`)
}

describe('an error at any file operation from the beginning of a run to its end', () => {
  for (const [name, scenario] of Object.entries(SCENARIOS))
    it(`neither starts a task twice nor loses it: ${name}`, async t => {
      const whole = await run(scenario, () => false, '')
      let cases = 0
      for (const [mode, refusesFrom] of Object.entries(MODES))
        for (let n = 1; n <= whole.calls.length; n++)
          for (const [i, code] of ERRORS.entries()) {
            if (!isLong && (7 * n + mode.length) % ERRORS.length !== i) continue
            const what = `${code} at call ${n}, ${whole.calls[n - 1]}, ${mode}`
            check(what, scenario, await run(scenario, refusesFrom(n), code), code, mode)
            cases++
          }
      t.diagnostic(`${cases} cases over ${whole.calls.length} calls`)
    })
})
