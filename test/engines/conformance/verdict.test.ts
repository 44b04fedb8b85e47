import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { LastRun } from '#src/base/task/last-run.js'
import { type Company, IGNORE, OK, type Outcome, RELEASE, RETRY } from '#src/base/task/outcome.js'
import type { Ref } from '#src/base/task/ref.js'
import { POLICY } from '../../helpers/engine.js'
import { requestFrom } from '../../helpers/request.js'
import { ROOT } from '../../helpers/workspace.js'
import { beginOf, claimOnceDue, ENGINES, refsOf, refusalOf, type TestSpool } from './engines.js'

const EVERY_RUN = { policy: { ...POLICY, delayMs: 0 }, frequencyMs: 1 }

/** Brings a run to its end. @returns what the next claim is to be told */
type Run = (spool: TestSpool, ref: Ref) => Promise<LastRun | undefined>

function ended(outcome: Outcome): Run {
  return async (spool, ref) => {
    const claims = await spool.claims(EVERY_RUN)
    await claims.settle(await beginOf(claims, ref), outcome, 1)
    return undefined
  }
}

function died(company: Company, lastRun?: LastRun): Run {
  return async (spool, ref) => {
    const claims = await spool.claims(EVERY_RUN)
    await beginOf(claims, ref, company)
    return spool.died(claims, ref, lastRun)
  }
}

/** Brings about each kind of run that docs/failures.md speaks of. */
const RUNS: Readonly<Record<string, Run>> = {
  'ended with `SPOOL_OK`': ended(OK),
  'was ignored by every handler': ended(IGNORE),
  'asked to be run again': ended(RETRY),
  'threw, or answered something else': ended({ kind: 'error', detail: 'boom' }),
  'asked to be buried': ended({ kind: 'bury', detail: 'no use' }),
  'was cancelled, and ended': ended({ kind: 'cancel', detail: 'it was cancelled' }),
  'killed its interpreter': ended({ kind: 'crash', detail: 'it was killed' }),
  'was interrupted by a stop': ended(RELEASE),
  'ran alone when its process died': died('alone', { kind: 'crash', cause: 'its process was killed' }),
  'ran beside others when its process died': died('beside'),
  'ran when an operator or mercy ended its process': died('beside', { kind: 'blameless' }),
  'was cancelled, and its process was killed': died('alone', {
    kind: 'cancelled',
    detail: 'it was cancelled',
  }),
}

/** The cause of death that the next claim tells the languages, per delivery; absent: none. */
const DEATHS: Readonly<Record<string, { readonly atLeast?: string; readonly atMost?: string }>> = {
  'threw, or answered something else': {},
  'was interrupted by a stop': {},
  'ran alone when its process died': { atLeast: 'its process was killed', atMost: 'its process was killed' },
  'ran beside others when its process died': { atMost: 'its process died' },
  'ran when an operator or mercy ended its process': {},
  'was cancelled, and its process was killed': {},
}

const table = [
  ...readFileSync(join(ROOT, 'docs/failures.md'), 'utf8').matchAll(
    /^\| ([^|]+) \| ((?:removed|as before|counts|buried)[^|]*) \| ([^|]+) \|$/gm,
  ),
].map(([, run = '', atLeast = '', atMost = '']) => ({ run, atLeast, atMost }))

/** Returns what the next claim finds, or why the task was buried, in the words of the table. */
async function found(spool: TestSpool, ref: Ref, lastRun: LastRun | undefined): Promise<string> {
  const claims = await spool.claims(EVERY_RUN)
  const first = await claims.claim(ref, lastRun)
  const { byReason } = (await spool.upkeep().stats()).dead
  const [reason] = Object.keys(byReason)
  if (reason !== undefined) {
    assert.equal((await refusalOf(claims, ref)).kind, 'gone')
    return `buried: \`${reason}\``
  }
  if ('kind' in first && first.kind === 'gone') return 'removed'
  const claim = 'kind' in first ? await claimOnceDue(claims, ref) : first
  const { attempt, mustBeAlone } = claim
  await claims.release(claim)
  if (attempt === 1) return mustBeAlone ? 'counts nothing, runs alone' : 'as before'
  assert.equal(attempt, 2)
  return mustBeAlone ? 'counts a run and a crash, runs alone' : 'counts a run, runs again'
}

describe('the table in docs/failures.md', () => {
  it('has a row for each kind of run', () => {
    assert.deepEqual(table.map(({ run }) => run).sort(), Object.keys(RUNS).sort())
  })
})

for (const [engine, open] of Object.entries(ENGINES))
  describe(`a run in the ${engine} engine`, () => {
    for (const { run, ...columns } of table)
      for (const [column, delivery] of [
        ['atLeast', 'at-least-once'],
        ['atMost', 'at-most-once'],
      ] as const)
        it(`that ${run}, ${delivery}: ${columns[column]}`, async () => {
          const spool = open()
          await spool.enqueuer.store(requestFrom({ spooler_delivery: delivery }))
          const [ref = ''] = await refsOf(spool)
          const lastRun = await RUNS[run]?.(spool, ref)
          assert.equal(await found(spool, ref, lastRun), columns[column])
        })

    for (const [run, death] of Object.entries(DEATHS))
      for (const delivery of ['at-least-once', 'at-most-once'] as const)
        it(`that ${run}, ${delivery}: its death is reported once with its recorded cause, if it counts`, async () => {
          const spool = open()
          await spool.enqueuer.store(requestFrom({ spooler_delivery: delivery, body: 'its body' }))
          const [ref = ''] = await refsOf(spool)
          const lastRun = await RUNS[run]?.(spool, ref)
          const told: unknown[] = []
          const claims = await spool.claims({
            ...EVERY_RUN,
            died: (dead, { cause, atMs }) =>
              told.push([cause, atMs !== undefined, dead.attempt, String(dead.readBody())]),
          })
          for (const told of [lastRun, lastRun]) {
            const claim = await claims.claim(ref, told)
            if (!('kind' in claim)) await claims.release(claim)
          }
          const expected = delivery === 'at-least-once' ? death.atLeast : death.atMost
          const again = delivery === 'at-least-once'
          assert.deepEqual(told, expected === undefined ? [] : [[expected, again, 1, 'its body']])
        })

    it('that ran beside others when its process died uses up none of its three attempts', async () => {
      const spool = open()
      const settings = { ...EVERY_RUN, policy: { ...EVERY_RUN.policy, maxAttempts: 3 } }
      await spool.enqueuer.store(requestFrom({ n: '1' }))
      const [ref = ''] = await refsOf(spool)
      await died('beside')(spool, ref)
      const claims = await spool.claims(settings)
      for (const kind of ['error', 'error', 'buried']) {
        const claim = await claimOnceDue(claims, ref)
        assert.equal(await claims.begin(claim, 'alone'), undefined)
        assert.equal((await claims.settle(claim, { kind: 'error', detail: 'boom' }, 1)).kind, kind)
      }
    })
  })
