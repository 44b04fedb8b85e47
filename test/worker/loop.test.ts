import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { OK } from '#src/base/task/outcome.js'
import { REPORT_KINDS } from '#src/base/task/report.js'
import type { Claims } from '#src/engines/spool/claims/claims.js'
import { Hide } from '#src/formats/protocol/hide.js'
import { Marks } from '#src/runtime/ipc/marks.js'
import type { WorkerMessage } from '#src/runtime/ipc/messages.js'
import { FunctionExecutor } from '#src/runtime/worker/function-executor.js'
import { Loop } from '#src/runtime/worker/loop.js'
import { openEngine } from '../helpers/engine.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { byteOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

type Handle = (name: string) => Promise<typeof OK>

const MB = 1024 * 1024

async function open(spool: string, handle: Handle, rssBytes = 0, claims?: Claims, marks = new Marks()) {
  const messages: WorkerMessage[] = []
  const loop = new Loop(
    claims ?? (await openEngine(spool)),
    listener =>
      new FunctionExecutor(
        {
          chain: [({ claim }) => handle(claim.ref)],
          context: { spool, log() {} },
          chdir: spool,
          hosts: [],
          concurrency: 1,
        },
        listener,
      ),
    {
      marks,
      isConcurrent: false,
      maxTasks: 0,
      memory: { rssBytes, vszBytes: 0, minAgeMs: 0 },
      signalAsTask: false,
      harakiriMs: 0,
      isKilled: true,
      isListenedTo: false,
      isDetailed: false,
      hide: new Hide([]),
      handle() {},
      send: message => messages.push(message),
      died() {},
      drained() {},
    },
  )
  return { loop, messages }
}

describe('the reports of a worker', () => {
  it('have the whole time of a task, even if its start was reported meanwhile, so that it counts as slow', async () => {
    const spool = spoolDirectory()
    for (const name of ['quick', 'slow']) drop(spool, name, packet({ n: name }))
    const { loop, messages } = await open(spool, async name => {
      if (name === 'quick') return OK
      await sleep(60)
      await until('its start is reported', () => sent().some(({ started }) => started.includes(1)))
      return OK
    })
    const sent = () => messages.filter(message => message.type === 'reports')
    loop.take({ numbers: [0, 2], refs: ['quick', 'slow'] })
    await until('both are reported', () => sent().filter(({ done }) => done.length > 0).length === 2)
    assert.deepEqual(sent().at(-1)?.done, [1, 1])
    assert.ok((sent().at(-1)?.busyMs ?? 0) > 55, `60 ms, got ${sent().at(-1)?.busyMs}`)
  })

  it('include a start before its run if the claim took longer than a report may be old', async () => {
    const spool = spoolDirectory()
    for (const name of ['first', 'second']) drop(spool, name, packet({ n: name }))
    const claims = await openEngine(spool)
    const claim = claims.claim.bind(claims)
    claims.claim = (...args) => {
      if (args[0] === 'second') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 40) // its disk stalls
      return claim(...args)
    }
    let toldOfSecond = false
    const { loop, messages } = await open(
      spool,
      async name => {
        const told = messages.some(message => message.type === 'reports' && message.started.includes(1))
        if (name === 'second') toldOfSecond = told
        return OK
      },
      0,
      claims,
    )
    loop.take({ numbers: [0, 2], refs: ['first', 'second'] })
    await until('both have run', () => leftIn(spool).length === 0)
    assert.ok(toldOfSecond)
  })

  it('include a failed task before the next one begins, which may kill the process', async () => {
    const spool = spoolDirectory()
    const names = ['a good', 'b bad', 'c next', 'd last']
    for (const name of names) drop(spool, name, packet({ n: name }))
    let toldBefore: string[] | undefined
    const { loop, messages } = await open(spool, async name => {
      if (name === 'b bad') throw new Error('no')
      if (name === 'c next') toldBefore = messages.map(message => JSON.stringify(message))
      return OK
    })
    loop.take({ numbers: [0, names.length], refs: names })
    await until('the last has run', () => !leftIn(spool).includes('d last'))
    assert.match(toldBefore?.join() ?? '', /Error: no/)
  })
})

describe('an exception outside of every call', () => {
  it('does not change the outcome of a task that has ended and is still being settled', async () => {
    const spool = spoolDirectory()
    drop(spool, 'ended', packet({ n: 'ended' }))
    const claims = await openEngine(spool)
    const settle = claims.settle.bind(claims)
    let settled = 0
    let write = () => {}
    const isWritten = new Promise<void>(resolve => {
      write = resolve
    })
    const slow = (...args: Parameters<typeof settle>) => {
      settled++
      return isWritten.then(() => settle(...args))
    }
    Object.assign(claims, { settle: slow })
    const { loop, messages } = await open(spool, async () => OK, 0, claims)
    loop.take({ numbers: [0, 1], refs: ['ended'] })
    await until('the task is being settled', () => settled === 1)
    assert.equal(loop.fault(new Error('of a timer that it has left behind')), false)
    write()
    await loop.settled()
    assert.equal(settled, 1)
    const reports = messages.filter(message => message.type === 'reports')
    assert.deepEqual(
      reports.flatMap(({ done, packed }) => [done, packed]).filter(list => list.length > 0),
      [[0, 1]],
    )
  })

  it('makes the worker hand back a task that was about to begin, before its process ends', async () => {
    const spool = spoolDirectory()
    drop(spool, 'next', packet({ n: 'next' }))
    const claims = await openEngine(spool)
    const begin = claims.begin.bind(claims)
    let write = () => {}
    const isWritten = new Promise<void>(resolve => {
      write = resolve
    })
    let isBeginning = false
    const slow = (...args: Parameters<typeof begin>) => {
      isBeginning = true
      return isWritten.then(() => begin(...args))
    }
    Object.assign(claims, { begin: slow })
    const { loop, messages } = await open(spool, async () => assert.fail('it has run'), 0, claims)
    loop.take({ numbers: [0, 1], refs: ['next'] })
    await until('the task is about to begin', () => isBeginning)
    loop.fault(new Error('of a timer of another task'))
    write()
    await loop.settled()
    const reports = messages.filter(message => message.type === 'reports')
    const kinds = reports.flatMap(({ packed }) => packed.filter((_, at) => at % 4 === 1))
    assert.deepEqual(
      kinds.map(kind => REPORT_KINDS[kind]),
      ['untouched'],
    )
    assert.equal(byteOf(join(spool, 'next')), 0)
  })
})

describe('tasks that a worker was given', () => {
  it('do not begin, and are not reported, once the master has withdrawn them', async () => {
    const spool = spoolDirectory()
    const names = ['first', 'withdrawn', 'third']
    for (const name of names) drop(spool, name, packet({ n: name }))
    const memory = new ArrayBuffer(Marks.BYTES)
    const [master, marks] = [new Marks({ memory }), new Marks({ memory })]
    for (const i of names.keys()) master.give(i)
    const ran: string[] = []
    const begun: boolean[] = []
    const handle = async (name: string) => {
      ran.push(name)
      begun.push(master.isBegun(names.indexOf(name)))
      if (name === 'first') assert.deepEqual([master.withdraw(0), master.withdraw(1)], [false, true])
      return OK
    }
    const { loop, messages } = await open(spool, handle, 0, undefined, marks)
    loop.take({ numbers: [0, 3], refs: names })
    await until('the third has run', () => ran.includes('third'))
    await until('the worker rests', () =>
      messages.some(each => each.type === 'reports' && each.done.includes(2)),
    )
    assert.deepEqual([ran, begun, leftIn(spool)], [['first', 'third'], [true, true], ['withdrawn']])
    const reports = messages.filter(message => message.type === 'reports')
    assert.deepEqual(
      [reports.flatMap(({ done }) => done), reports.flatMap(({ packed }) => packed)],
      [[0, 1, 2, 1], []],
    )
    assert.deepEqual([master.isBegun(0), master.isBegun(1), master.isTaken(1)], [false, false, false])
  })
})

describe('reload-on-rss', () => {
  it('is checked after the last of several quick tasks, too', async () => {
    const spool = spoolDirectory()
    const names = ['quick', 'second', 'third', 'eater']
    for (const name of names) drop(spool, name, packet({ n: name }))
    const eaten: Buffer[] = []
    const eat = async (name: string) => {
      if (name === 'eater') eaten.push(Buffer.alloc(60 * MB, 1))
      return OK
    }
    const { loop, messages } = await open(spool, eat, process.memoryUsage.rss() + 30 * MB)
    loop.take({ numbers: [0, names.length], refs: names })
    await until('the worker recycles', () => messages.some(({ type }) => type === 'recycling'))
    assert.equal(eaten.length, 1)
  })
})
