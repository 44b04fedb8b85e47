import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { UNBEGUN } from '#src/base/task/outcome.js'
import { REPORT_KINDS } from '#src/base/task/report.js'
import type { Claims } from '#src/engines/spool/claims/claims.js'
import { BESIDE, ONCE, STARTED } from '#src/engines/spool/state-byte.js'
import { Hide } from '#src/formats/protocol/hide.js'
import { Marks } from '#src/runtime/ipc/marks.js'
import type { WorkerMessage } from '#src/runtime/ipc/messages.js'
import type { Executor, ExecutorListener } from '#src/runtime/worker/executor.js'
import { Loop } from '#src/runtime/worker/loop.js'
import type { Run } from '#src/runtime/worker/run.js'
import { beginOf, claimOf, crash, openEngine } from '../helpers/engine.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Returns a loop over these tasks, for a host that takes pages. `once` is delivered at most once, `suspect` must be alone. */
async function pagesOf(...names: readonly string[]) {
  const spool = spoolDirectory()
  for (const name of names)
    drop(spool, name, packet(name.startsWith('once') ? { spooler_delivery: 'at-most-once' } : { n: name }))
  for (const name of names.filter(each => each.startsWith('suspect'))) {
    beginOf(await openEngine(spool), name, 'beside')
    crash(spool, name)
  }
  const pages: Run[][] = []
  const messages: WorkerMessage[] = []
  let listener: ExecutorListener | undefined
  const host: { -readonly [Key in keyof Executor]: Executor[Key] } = {
    slots: 1,
    pageTasks: 64,
    isOpen: true,
    run: page => void pages.push([...page]), // it takes another page at once
    fault: () => false,
  }
  const claims = await openEngine(spool)
  const loop = new Loop(
    claims,
    each => {
      listener = each
      return host
    },
    {
      marks: new Marks(),
      isConcurrent: false,
      maxTasks: 0,
      memory: { rssBytes: 0, vszBytes: 0, minAgeMs: 0 },
      signalAsTask: false,
      harakiriMs: 0,
      isKilled: true,
      isListenedTo: true,
      isDetailed: false,
      hide: new Hide([]),
      handle() {},
      send: message => messages.push(message),
      died() {},
      drained() {},
    },
  )
  let given = 0
  return {
    spool,
    host,
    claims,
    loop,
    stateOf: (name: string) => readFileSync(join(spool, name))[3],
    /** Gives all tasks, or those that are named. */
    give(...some: readonly string[]) {
      const refs = some.length === 0 ? names : some
      loop.take({ numbers: [given, refs.length], refs })
      given += refs.length
    },
    /** Returns the next page. */
    async page(): Promise<Run[]> {
      await until('a page comes', () => pages.length > 0)
      return pages.shift() ?? []
    },
    end(page: readonly Run[]) {
      for (const run of page) listener?.ended(run, UNBEGUN, 0)
      listener?.progressed()
    },
    untouched: () =>
      messages.flatMap(message =>
        message.type !== 'reports'
          ? []
          : message.packed.flatMap((number, i) =>
              i % 4 === 0 && REPORT_KINDS[message.packed[i + 1] ?? 0] === 'untouched' ? [number] : [],
            ),
      ),
  }
}

/** Makes `begin` take a while, as it does if the claims are not on this machine. @param act what happens meanwhile */
function beginSlowly(claims: Claims, act: () => void): void {
  const begin = claims.begin.bind(claims)
  const slow = async (...args: Parameters<typeof begin>) => {
    const begun = begin(...args)
    act()
    return begun
  }
  Object.assign(claims, { begin: slow })
}

const refsOf = (page: readonly Run[]) => page.map(({ claim }) => claim.ref)

describe('a task that is claimed for a page', () => {
  it('begins beside others when it is sent with others or behind them', async () => {
    await until('two were claimed in time for one page', async () => {
      const { give, page, stateOf } = await pagesOf('a', 'b', 'c')
      give('a', 'b')
      if ((await page()).length === 1) return false // on a busy machine
      assert.deepEqual([stateOf('a'), stateOf('b')], [STARTED | BESIDE, STARTED | BESIDE])
      give('c')
      assert.deepEqual(refsOf(await page()), ['c'])
      assert.equal(stateOf('c'), STARTED | BESIDE)
      return true
    })
  })

  it('begins alone when it is the only one, and nothing is sent behind it', async () => {
    const { give, page, end, stateOf } = await pagesOf('a', 'b')
    give('a')
    const first = await page()
    assert.equal(stateOf('a'), STARTED)
    give('b')
    await sleep(100) // nothing is to happen
    assert.equal(stateOf('b'), 0)
    end(first)
    assert.deepEqual(refsOf(await page()), ['b'])
  })

  for (const [name, before, state] of [
    ['once', 0, STARTED | ONCE],
    ['suspect', STARTED | BESIDE, STARTED],
  ] as const) {
    it(`waits without a mark behind others, and is sent alone (${name})`, async () => {
      const { give, page, end, stateOf } = await pagesOf('a', name, 'b')
      give()
      const first = await page()
      assert.deepEqual(refsOf(first), ['a'])
      assert.equal(stateOf(name), before, 'it has not begun')
      end(first)
      const second = await page()
      assert.deepEqual(refsOf(second), [name])
      assert.equal(stateOf(name), state)
      assert.equal(stateOf('b'), 0)
    })

    it(`is handed back as it was when it is withdrawn, and others may claim it at once (${name})`, async () => {
      const { spool, loop, give, page, stateOf, untouched } = await pagesOf('a', name, 'b')
      give()
      await page()
      loop.recall()
      assert.deepEqual(untouched(), [1, 2])
      assert.equal(stateOf(name), before)
      assert.equal(claimOf(await openEngine(spool), name).attempt, 1)
    })
  }

  it('is handed back as it was if its host dies before it is sent', async () => {
    const { host, claims, give, stateOf, untouched } = await pagesOf('a')
    beginSlowly(claims, () => {
      host.isOpen = false
    })
    give()
    await until('the task is handed back', () => untouched().length > 0)
    assert.deepEqual(untouched(), [0])
    assert.equal(stateOf('a'), 0)
  })
})
