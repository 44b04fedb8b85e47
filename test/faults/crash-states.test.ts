import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { fromThrown, toOutcome } from '#src/base/task/answer.js'
import { IGNORE, OK, type Outcome, RELEASE, RETRY } from '#src/base/task/outcome.js'
import {
  type Changed,
  change,
  openSpool,
  refused,
  remove,
  type TargetFile,
} from '#src/engines/spool/admin/change.js'
import { hold, kick, release } from '#src/engines/spool/admin/hold.js'
import { requeue } from '#src/engines/spool/admin/letters.js'
import { rename } from '#src/engines/spool/admin/move.js'
import { sweepSpool } from '#src/engines/spool/admin/sweep.js'
import type { Claims } from '#src/engines/spool/claims/claims.js'
import { enqueueSync } from '#src/index.js'
import { openEngine, POLICY, refusalOf } from '../helpers/engine.js'
import { FileJournal, replay, type Step } from '../helpers/file-journal.js'
import { drop, packet } from '../helpers/files.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { workspace } from '../helpers/workspace.js'

const LONG_AGO = 1_000_000_000
const NAME = 'uwsgi_spoolfile_on_host_1_1_1_1700000000_1'
const FREE = 'report'
/** A text that no other file has. */
const NEEDLE = 'needle-in-the-packet'
const BODY = 'the body'

/** How a task may end when everything has recovered; each is a row of docs/lifecycle.md. */
type End = 'run' | 'dead' | 'absent' | 'held'

interface Scenario {
  /** Is called before the journal begins. */
  prepare?(spool: string): unknown
  /** Makes the changes that are journaled, and calls `ran` where the handler would run. */
  act(spool: string, ran: () => void): unknown
  /** How the task may end when the journal is cut anywhere. */
  readonly ends: readonly End[]
  /**
   * How it may end when the journal is whole, so that the task was acknowledged: after a kill, and if `isSynced` after a power
   * failure, too.
   */
  readonly endsWhole?: readonly End[]
  readonly isSynced?: true
  readonly isOnce?: true
}

const settings = {
  frequencyMs: 0,
  graceMs: 0,
  policy: { ...POLICY, backoff: 'none' as const },
}
const open = (spool: string) => openEngine(spool, settings)

/** Returns a scenario that takes a task through a run. */
function running(outcome: Outcome, ranMs = 0, vars: Record<string, string> = {}, name = NAME): Scenario {
  return {
    prepare: spool => drop(spool, name, packet({ n: NEEDLE, ...vars }, BODY), LONG_AGO),
    act: async (spool, ran) => {
      const engine = await open(spool)
      const claim = engine.claim(name)
      assert.ok(!('kind' in claim))
      assert.equal(engine.begin(claim, 'alone'), undefined)
      ran()
      engine.settle(claim, outcome, ranMs)
    },
    ends: ['run'],
  }
}

/** Returns the same scenario for a task whose last runs died with their process. */
function afterCrash(marks: number, vars: Record<string, string> = {}): Scenario {
  return {
    prepare: spool =>
      drop(spool, NAME, Buffer.from(packet({ n: NEEDLE, ...vars }, BODY)).fill(marks, 3, 4), LONG_AGO),
    act: async (spool, ran) => {
      const engine = await open(spool)
      const claim = engine.claim(NAME)
      if ('kind' in claim || engine.begin(claim, 'alone') !== undefined) return
      ran()
      engine.settle(claim, OK, 0)
    },
    ends: ['run'],
  }
}

/** Returns an act that an operator asks for. */
function changing(ref: string, act: (spool: string, file: TargetFile) => Changed): Scenario['act'] {
  return async spool => {
    const changed = await change(at(spool), ref, file => act(spool, file))
    assert.equal(changed.kind, 'done', JSON.stringify(changed))
  }
}

const opened = new Map<string, Awaited<ReturnType<typeof openSpool>>>()
const at = (spool: string) => {
  const spoolOpened = opened.get(spool)
  assert.ok(spoolOpened)
  return spoolOpened
}

const bury = (spool: string) => running(toOutcome({ bury: 'so' })).act(spool, () => {})
const bare = (spool: string) => drop(spool, NAME, packet({ n: NEEDLE }, BODY), LONG_AGO)
const store = (options: object) => (spool: string) =>
  enqueueSync({ n: NEEDLE }, { spooler: spool, ...options })

const STORED = { ends: ['absent', 'run'], endsWhole: ['run'], isSynced: true } as const
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'enqueue, synced': { act: store({ sync: true }), ...STORED },
  'enqueue, with a body and a time': { act: store({ sync: true, body: BODY, at: LONG_AGO }), ...STORED },
  'enqueue, with a priority': { act: store({ sync: true, priority: 5 }), ...STORED },
  'enqueue, with an id': { act: store({ sync: true, id: 'a' }), ...STORED },
  'enqueue, with an id that was promised': {
    act: spool => [store({ sync: true, id: 'a' })(spool), store({ sync: true, id: 'a' })(spool)],
    ...STORED,
  },
  'enqueue, not synced': { act: store({ sync: false, body: BODY }), ends: ['absent', 'run', 'dead'] },
  'done, quick': running(OK),
  'done, slow': running(OK, 5),
  'done, under a free name': running(OK, 0, {}, FREE),
  'done, at most once': {
    ...running(OK, 5, { spooler_delivery: 'at-most-once' }),
    ends: ['run', 'dead'],
    isOnce: true,
  },
  retry: running(RETRY),
  'an error': running(fromThrown(new Error('x'))),
  'the last attempt': { ...running(toOutcome({ retry: true, maxAttempts: 1 })), ends: ['run', 'dead'] },
  'buried by its handler': { ...running(toOutcome({ bury: 'so' })), ends: ['run', 'dead'] },
  'buried by its handler, under a free name': {
    ...running(toOutcome({ bury: 'so' }), 0, {}, FREE),
    ends: ['run', 'dead'],
  },
  ignored: running(IGNORE),
  released: running(RELEASE),
  'after a crash': { ...afterCrash(0x80), ends: ['run', 'dead'] },
  'after a crash, at most once': {
    ...afterCrash(0x90, { spooler_delivery: 'at-most-once' }),
    ends: ['dead'],
    isOnce: true,
  },
  malformed: {
    prepare: spool => drop(spool, NAME, `\x05\0\0\0${NEEDLE}`, LONG_AGO),
    act: async spool => {
      const engine = await open(spool)
      await until('its grace is over', () => refusalOf(engine, NAME).kind === 'set-aside')
    },
    ends: ['dead'],
  },
  hold: { prepare: bare, act: changing(NAME, (spool, file) => hold(at(spool), file)), ends: ['run', 'held'] },
  'release of what is held': {
    prepare: spool => {
      bare(spool)
      changing(NAME, (same, file) => hold(at(same), file))(spool, () => {})
    },
    act: changing(NAME, (spool, file) => release(at(spool), file)),
    ends: ['run', 'held'],
    endsWhole: ['run'],
  },
  kick: { prepare: bare, act: changing(NAME, (spool, file) => kick(at(spool), file)), ends: ['run'] },
  requeue: {
    prepare: async spool => {
      bare(spool)
      await bury(spool)
    },
    act: changing(`.spoold/dead/${NAME}`, (spool, file) => requeue(at(spool), file, { keepAttempts: true })),
    ends: ['run', 'dead'],
  },
  remove: {
    prepare: bare,
    act: changing(NAME, (spool, file) => remove(at(spool), file)),
    ends: ['run', 'absent'],
  },
  'move to another spool': {
    prepare: spool => {
      mkdirSync(`${spool}-2/.spoold`, { recursive: true })
      bare(spool)
    },
    act: changing(
      NAME,
      (spool, file) => rename(at(spool), at(`${spool}-2`), file) ?? refused('they are on two file systems'),
    ),
    ends: ['run'],
  },
}

/** Returns the path of every file below the directory. */
function filesBelow(base: string): string[] {
  return readdirSync(base, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath ?? entry.path, entry.name))
}

/** Returns the files that hold the task, of which there must not be two. */
function placesOf(base: string): string[] {
  return filesBelow(base).filter(path => readFileSync(path, 'latin1').includes(NEEDLE))
}

/** Makes all tasks due, runs them and sweeps, again and again. @returns how often the task ran */
async function recover(base: string): Promise<number> {
  let runs = 0
  for (const spool of [join(base, 'spool'), join(base, 'spool-2')].filter(existsSync)) {
    const engine = await open(spool)
    // A file that has only now changed has a grace of some part of a millisecond.
    for (let round = 0; round < 4 || (round < 50 && hasMore(spool)); round++) {
      runs += runAll(spool, engine)
      await sweepSpool({ spool, graceMs: 0.001, idTtlMs: 0 })
      if (round >= 4) await setTimeout(1)
    }
  }
  return runs
}

function hasMore(spool: string): boolean {
  return readdirSync(spool).some(name =>
    /^\d+$/.test(name) ? readdirSync(join(spool, name)).length > 0 : name !== '.spoold',
  )
}

function runAll(spool: string, engine: Claims): number {
  let runs = 0
  const visible = (directory: string) => readdirSync(directory).filter(name => !name.startsWith('.'))
  const refs = visible(spool).flatMap(name =>
    /^\d+$/.test(name) ? visible(join(spool, name)).map(each => `${name}/${each}`) : [name],
  )
  for (const ref of refs) {
    const claim = engine.claim(ref)
    if ('kind' in claim) {
      // A waiting task becomes due now; to touch a file that is no task would begin its grace anew.
      if (claim.kind === 'later') utimesSync(join(spool, ref), LONG_AGO, LONG_AGO)
      continue
    }
    assert.equal(engine.begin(claim, 'alone'), undefined)
    runs++
    engine.settle(claim, OK, 0)
  }
  return runs
}

function endOf(base: string, runs: number): End {
  const [place, second] = placesOf(base)
  assert.equal(second, undefined, `it is in two places: ${place}, ${second}`)
  if (place === undefined) return runs > 0 ? 'run' : 'absent'
  if (place.includes('/.spoold/dead/')) return 'dead'
  assert.ok(!basename(place).startsWith('.'), `it stayed at ${place}`)
  const record = join(base, 'spool/.spoold/records', `${NAME}.json`)
  assert.ok(
    existsSync(record) && 'heldMtime' in JSON.parse(readFileSync(record, 'utf8')),
    `it stayed at ${place}`,
  )
  return 'held'
}

/** Yields up to `most` ways in which unsynced steps may be lost: none of them first, all of them second. */
function* losses(steps: readonly Step[], most: number): Generator<readonly Step[]> {
  yield steps
  const loose = steps.filter(step => step.needs !== null && step.safeAfter > steps.length)
  const all = 2 ** loose.length - 1
  for (let i = 1; i <= Math.min(all, most); i++) {
    // The bits of a number say which steps are lost: all numbers when they are few, else some at random.
    const lost = all <= most ? i : i === 1 ? all : 1 + Math.floor(random() * all)
    const dropped = new Set(loose.filter((_, bit) => Math.floor(lost / 2 ** bit) % 2 === 1))
    yield steps.filter(step => !dropped.has(step))
  }
}

/** Returns the same numbers in every run (mulberry32), so that a failure fails again. */
let seed = 1
function random(): number {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
}

describe('after a kill or a power failure at any step, a task is in one documented state and recovers', () => {
  let states = 0
  for (const [what, scenario] of Object.entries(SCENARIOS))
    it(what, async t => {
      const directory = workspace()
      const [base, before, after] = ['base', 'before', 'after'].map(name => join(directory, name))
      assert.ok(base !== undefined && before !== undefined && after !== undefined)
      const spool = join(base, 'spool')
      mkdirSync(join(spool, '.spoold'), { recursive: true })
      for (const each of [spool, `${spool}-2`]) {
        mkdirSync(join(each, '.spoold'), { recursive: true })
        opened.set(each, await openSpool(each))
      }
      await scenario.prepare?.(spool)
      cpSync(base, before, { recursive: true, preserveTimestamps: true })
      const journal = new FileJournal(base)
      let ranAt = Number.POSITIVE_INFINITY
      try {
        await scenario.act(spool, () => {
          ranAt = journal.steps.length
          journal.mark()
        })
      } finally {
        journal.stop()
      }
      const { steps } = journal
      assert.ok(steps.length > 2, `${steps.length} steps`)
      const seen = new Map<End, number>()
      for (let cut = 0; cut <= steps.length; cut++)
        for (const kept of losses(steps.slice(0, cut), isLong ? 256 : 3)) {
          rmSync(after, { recursive: true, force: true })
          cpSync(before, after, { recursive: true, preserveTimestamps: true })
          replay(kept, base, after)
          const isWhole = cut === steps.length && (kept.length === cut || scenario.isSynced === true)
          const story = `cut after ${cut} of ${steps.length} (${steps[cut - 1]?.do}), kept ${kept.map(step => step.do)}`
          assert.ok(placesOf(after).length <= 1, `${story}: it is in two places`)
          const begun = ranAt < cut ? 1 : 0
          const runs = begun + (await recover(after))
          const end = endOf(after, runs)
          const ends = isWhole ? (scenario.endsWhole ?? scenario.ends) : scenario.ends
          assert.ok(ends.includes(end), `${story}: it is ${end}, expected ${ends}`)
          if (scenario.isOnce) assert.ok(runs <= 1, `${story}: it ran ${runs} times`)
          seen.set(end, (seen.get(end) ?? 0) + 1)
          states++
        }
      t.diagnostic(
        `${steps.length} steps: ${[...seen].map(([end, count]) => `${count} ${end}`).join(', ')}; ${states} in all`,
      )
    })
})
