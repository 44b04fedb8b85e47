import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { patience, until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/**
 * Does what the task's `do` says. `start` and `end` lines tell what ran; `hold` runs until the file named in `until` exists.
 */
const ACTOR = `
import { existsSync } from 'node:fs'
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const acts = {
  ok: () => {},
  hold: async env => { while (!existsSync(env.until)) await sleep(5) },
  block: () => { for (;;) {} },
  exit: () => process.exit(0),
  'exit-1': () => process.exit(1),
  abort: () => process.abort(),
  throw: () => { throw new Error('thrown at once') },
  reject: async () => { await sleep(5); throw new Error('rejected') },
  'throw-late': () => { setTimeout(() => { throw new Error('thrown late') }, 20); return new Promise(() => {}) },
  'throw-after': () => { setTimeout(() => { throw new Error('thrown after') }, 20) },
  'reject-late': () => { setTimeout(() => Promise.reject(new Error('rejected late')), 20); return new Promise(() => {}) },
  'ignore-term': async env => { process.on('SIGTERM', () => {}); while (!existsSync(env.until)) await sleep(5) },
  signal: (env, task) => new Promise(resolve => task.signal.addEventListener('abort', () => { JOURNAL('warned ' + env.n); resolve() })),
  leak: () => { (globalThis.leaked ??= []).push(Buffer.alloc(5e6, 1)) },
}
export default async (env, task) => {
  JOURNAL('start ' + env.n + ' ' + process.pid + ' ' + task.attempt)
  await acts[env.do](env, task)
  JOURNAL('end ' + env.n)
  return task.SPOOL_OK
}`

type Ini = NonNullable<Parameters<typeof startDaemon>[0]['ini']>

async function startActor(spool: string, ini: Ini = {}): Promise<Daemon> {
  return startDaemon({ spool, handler: ACTOR, ini: { 'spooler-frequency': 1, ...ini } })
}

let count = 0
/** Drops a task that does this. @returns its number */
function act(spool: string, what: string, more: Record<string, string> = {}): string {
  const n = String(++count)
  drop(spool, undefined, packet({ n, do: what, ...more }))
  return n
}

const linesOf = (daemon: Daemon, word: string, n: string) =>
  daemon.journal().filter(line => line.startsWith(`${word} ${n} `) || line === `${word} ${n}`)
const started = (daemon: Daemon, n: string, times = 1) =>
  until(`task ${n} has started ${times} times`, () => linesOf(daemon, 'start', n).length >= times)
const ended = (daemon: Daemon, n: string) =>
  until(`task ${n} has ended`, () => linesOf(daemon, 'end', n).length > 0)
const pidOf = (daemon: Daemon, n: string) => Number(linesOf(daemon, 'start', n).at(-1)?.split(' ')[2])

/** No process is left, and no lock is held on what is left. */
async function assertGone(spool: string, pids: readonly number[]): Promise<void> {
  await until('no process is left', () => !pids.some(isAlive))
  const script = `import fcntl, sys, os
for f in sys.argv[1:]: fcntl.lockf(open(f, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)`
  execFileSync('python3', ['-c', script, ...leftIn(spool).map(name => join(spool, name))])
}

describe('a worker that is killed', () => {
  it('its task runs again at once, its neighbours are untouched, it is replaced', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2, 'spooler-frequency': 1000 })
    const gate = join(daemon.directory, 'gate')
    const [one, two] = [act(spool, 'hold', { until: gate }), act(spool, 'hold', { until: gate })]
    await started(daemon, one)
    await started(daemon, two)
    process.kill(pidOf(daemon, one), 'SIGKILL')
    await started(daemon, one, 2)
    writeFileSync(gate, '')
    await ended(daemon, one)
    await ended(daemon, two)
    assert.equal(linesOf(daemon, 'start', two).length, 1)
    assert.match(linesOf(daemon, 'start', one)[1] ?? '', / 2$/) // attempt
    assert.match(daemon.output, /OOOPS the spooler is no more\.\.\.trying respawn\.\.\./)
    await until('there are two again', () => daemon.children().length === 2)
    await until('both are removed', () => leftIn(spool).length === 0)
  })

  it('one after the other, at random, 30 times: every task is run', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 3, 'spooler-quiet': true })
    const numbers = Array.from({ length: 600 }, () => act(spool, 'ok'))
    for (let i = 0; i < 30; i++) {
      const done = daemon.journal().length
      await until('a task has run since', () => daemon.journal().length > done || leftIn(spool).length === 0)
      const worker = daemon.children().at(i % 3)
      if (worker !== undefined && isAlive(worker)) process.kill(worker, 'SIGKILL')
      for (let j = 0; j < 10; j++) numbers.push(act(spool, 'ok'))
    }
    await until('all have run', () => leftIn(spool).length === 0, 60_000)
    const ran = new Set(
      daemon
        .journal()
        .filter(line => line.startsWith('end'))
        .map(line => line.split(' ')[1]),
    )
    assert.deepEqual(
      numbers.filter(n => !ran.has(n)),
      [],
    )
  })
})

describe('a stop', { concurrency: 3 }, () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    it(`by ${signal} when idle: exit 0, no process left`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-processes': 2 })
      const workers = daemon.children()
      daemon.child.kill(signal)
      assert.equal(await daemon.code(), 0)
      assert.match(daemon.output, /goodbye to uWSGI\.\n$/)
      await assertGone(spool, workers)
    })

  it('mid-task lets the task end, takes no other, and runs nothing twice', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool)
    const gate = join(daemon.directory, 'gate')
    const running = act(spool, 'hold', { until: gate })
    await started(daemon, running)
    const workers = daemon.children()
    const waiting = act(spool, 'ok')
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('killing the spooler with pid')
    writeFileSync(gate, '')
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(
      [linesOf(daemon, 'end', running).length, linesOf(daemon, 'start', waiting).length],
      [1, 0],
    )
    assert.equal(leftIn(spool).length, 1)
    await assertGone(spool, workers)
  })

  it('out of mercy kills the task, which was warned; it runs again with the next daemon', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'worker-reload-mercy': 0.5, 'spooler-processes': 2 })
    const stubborn = act(spool, 'block')
    const warned = act(spool, 'signal')
    await started(daemon, stubborn)
    await started(daemon, warned)
    const workers = daemon.children()
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /NO MERCY !!!/)
    assert.deepEqual(
      daemon.journal().filter(line => line.startsWith('warned')),
      [`warned ${warned}`],
    )
    assert.equal(leftIn(spool).length, 1)
    await assertGone(spool, workers)
    const next = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL('next ' + env.n + ' ' + task.attempt); return task.SPOOL_OK }`,
    })
    await until('it has run again', () => leftIn(spool).length === 0)
    assert.equal(next.journal().at(-1), `next ${stubborn} 1`) // what a stop ended does not count
  })

  it('a second signal kills at once', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool)
    const stubborn = act(spool, 'block')
    await started(daemon, stubborn)
    const workers = daemon.children()
    daemon.child.kill('SIGTERM')
    await daemon.waitFor('killing the spooler with pid')
    await until('it is taken for a second one', () => {
      if (daemon.isRunning) daemon.child.kill('SIGTERM') // one within a quarter of a second counts as the same
      return !daemon.isRunning
    })
    assert.equal(await daemon.code(), 0)
    assert.match(daemon.output, /killing everything now/)
    await assertGone(spool, workers)
  })

  it('by SIGQUIT kills at once', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool)
    await started(daemon, act(spool, 'block'))
    const workers = daemon.children()
    daemon.child.kill('SIGQUIT')
    assert.equal(await daemon.code(), 0)
    await assertGone(spool, workers)
  })

  it('by kill -9 of the master: what runs ends and is settled, no process is left', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2 })
    const gate = join(daemon.directory, 'gate')
    const running = act(spool, 'hold', { until: gate })
    await started(daemon, running)
    const workers = daemon.children()
    daemon.child.kill('SIGKILL')
    await until('the idle worker is gone', () => workers.filter(isAlive).length === 1)
    writeFileSync(gate, '')
    await until('so is the other', () => workers.filter(isAlive).length === 0)
    assert.deepEqual([linesOf(daemon, 'end', running).length, leftIn(spool).length], [1, 0])
  })
})

describe('a reload', { concurrency: 3 }, () => {
  it('mid-task replaces the workers and kills nothing', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2 })
    const gate = join(daemon.directory, 'gate')
    const running = act(spool, 'hold', { until: gate })
    await started(daemon, running)
    const before = daemon.children()
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the spoolers are reloaded')
    const after = act(spool, 'ok')
    await ended(daemon, after)
    assert.ok(!before.includes(pidOf(daemon, after)))
    assert.ok(isAlive(pidOf(daemon, running)))
    writeFileSync(gate, '')
    await ended(daemon, running)
    await until('the old ones are gone', () => !before.some(isAlive) && daemon.children().length === 2)
    assert.equal(linesOf(daemon, 'start', running).length, 1)
  })

  it('under load, ten times: nothing is lost, nothing is run twice', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2, 'spooler-quiet': true })
    const numbers: string[] = []
    for (let i = 0; i < 10; i++) {
      for (let j = 0; j < 100; j++) numbers.push(act(spool, 'ok'))
      daemon.child.kill('SIGHUP')
      await until('it is done', () => daemon.output.split('the spoolers are reloaded').length === i + 2)
    }
    await until('all have run', () => leftIn(spool).length === 0)
    assert.deepEqual(
      daemon
        .journal()
        .filter(line => line.startsWith('end'))
        .map(line => line.slice(4))
        .sort(),
      [...numbers].sort(),
    )
  })
})

describe('harakiri', { concurrency: 3 }, () => {
  for (const what of ['block', 'signal'])
    it(`ends a handler that does not end (${what}); the worker is replaced and the task runs again`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-harakiri': 1 })
      const n = act(spool, what === 'signal' ? 'hold' : what, { until: '/nonexistent' })
      await started(daemon, n)
      const pid = pidOf(daemon, n)
      await daemon.waitFor(`*** HARAKIRI ON THE SPOOLER (pid: ${pid}) ***`)
      await started(daemon, n, 2)
      assert.ok(!isAlive(pid))
      assert.match(linesOf(daemon, 'start', n)[1] ?? '', / 2$/)
    })

  it('warns the handler first', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-harakiri': 2 })
    const n = act(spool, 'signal')
    await ended(daemon, n)
    assert.deepEqual(
      daemon.journal().filter(line => line.startsWith('warned')),
      [`warned ${n}`],
    )
    await until('it is removed', () => leftIn(spool).length === 0)
    assert.doesNotMatch(daemon.output, /HARAKIRI/)
  })

  it('counts from the start of each task, not from the first of a fast series', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-harakiri': 1, 'spooler-quiet': true })
    for (let i = 0; i < 3000; i++) act(spool, 'ok')
    await until('all have run', () => leftIn(spool).length === 0, 40_000)
    assert.doesNotMatch(daemon.output, /HARAKIRI/)
  })

  it('of one task of a concurrent worker: its neighbours go back unharmed', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, {
      'spooler-harakiri': Math.ceil(5 * patience()), // the neighbours run again within it
      'spooler-concurrency': 3,
      'spooler-frequency': 1000,
    })
    const gate = join(daemon.directory, 'gate')
    const guilty = act(spool, 'hold', { until: '/nonexistent' })
    await started(daemon, guilty)
    const since = Date.now()
    await until('a second has passed, so that the deadlines differ', () => Date.now() > since + 1000)
    const neighbours = [act(spool, 'hold', { until: gate }), act(spool, 'hold', { until: gate })]
    for (const n of neighbours) await started(daemon, n)
    await daemon.waitFor('HARAKIRI')
    for (const n of neighbours) await started(daemon, n, 2)
    writeFileSync(gate, '')
    for (const n of neighbours) {
      await ended(daemon, n)
      assert.match(linesOf(daemon, 'start', n).at(-1) ?? '', / 1$/) // still the first attempt
    }
    await started(daemon, guilty, 2)
    // it had begun beside others: it runs alone now, and only an end while alone counts
    assert.match(linesOf(daemon, 'start', guilty)[1] ?? '', / 1$/)
  })
})

describe('a worker that is recycled', () => {
  it('after spooler-max-tasks, with the backlog going on', async () => {
    const spool = spoolDirectory()
    const numbers = Array.from({ length: 25 }, () => act(spool, 'ok'))
    const daemon = await startActor(spool, { 'spooler-max-tasks': 10 })
    await until('all have run', () => leftIn(spool).length === 0)
    assert.equal(daemon.output.split('maximum number of tasks reached (10) recycling ...').length - 1, 2)
    const pids = numbers.map(n => pidOf(daemon, n))
    assert.equal(new Set(pids).size, 3)
    for (const pid of new Set(pids)) assert.ok(pids.filter(each => each === pid).length <= 10)
    assert.doesNotMatch(daemon.output, /OOOPS/)
  })
})

describe('a handler that', { concurrency: 3 }, () => {
  for (const [what, line] of [
    ['throw', /Error: thrown at once\n {6}at /],
    ['reject', /Error: rejected\n {6}at /],
    ['throw-late', /Error: thrown late\n {6}at /],
    ['reject-late', /Error: rejected late\n {6}at /],
  ] as const)
    it(`fails (${what}): the error is logged with its stack, the task is kept, others run`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-frequency': 1000 })
      const bad = act(spool, what)
      await daemon.waitFor(/failed, runs again in \d+ s/)
      const good = act(spool, 'ok')
      await ended(daemon, good)
      assert.match(daemon.output, line)
      assert.equal(linesOf(daemon, 'start', bad).length, 1)
      await until('only it is left', () => leftIn(spool).length === 1)
    })

  it('throws after its task is done: that task stays done, the process is replaced', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool)
    const n = act(spool, 'throw-after')
    await daemon.waitFor('uncaught exception outside any task')
    const good = act(spool, 'ok')
    await ended(daemon, good)
    assert.equal(linesOf(daemon, 'start', n).length, 1)
    await until('both are removed', () => leftIn(spool).length === 0)
  })

  for (const what of ['exit', 'exit-1', 'abort'])
    it(`takes its process with it (${what}): the daemon lives, others run, the task comes again with backoff`, async () => {
      const spool = spoolDirectory()
      const daemon = await startActor(spool, { 'spooler-frequency': 1000 })
      const bad = act(spool, what)
      await started(daemon, bad, 2)
      const good = act(spool, 'ok')
      await ended(daemon, good)
      await started(daemon, bad, 3)
      assert.ok(daemon.isRunning)
    })

  it('leaks is recycled before it hurts', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 40; i++) act(spool, 'leak')
    const daemon = await startActor(spool, { 'spooler-max-tasks': 5 })
    await until('all have run', () => leftIn(spool).length === 0, 30_000)
    assert.ok(daemon.isRunning)
  })

  it('ignores SIGTERM does not hold up a stop', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'worker-reload-mercy': 0.5 })
    const n = act(spool, 'ignore-term', { until: '/nonexistent' })
    await started(daemon, n)
    const workers = daemon.children()
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
    await assertGone(spool, workers)
  })

  it('is slow does not keep others from what was given to its worker ahead', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-processes': 2, 'spooler-quiet': true })
    for (let i = 0; i < 500; i++) act(spool, 'ok') // fast tasks are given in batches
    await until('the fast ones have run', () => leftIn(spool).length === 0)
    const gate = join(daemon.directory, 'gate')
    const slow = act(spool, 'hold', { until: gate })
    const others = Array.from({ length: 50 }, () => act(spool, 'ok'))
    for (const n of others) await ended(daemon, n)
    assert.equal(linesOf(daemon, 'end', slow).length, 0)
    writeFileSync(gate, '')
    await ended(daemon, slow)
    assert.equal(linesOf(daemon, 'start', slow).length, 1)
  })
})

describe('concurrency', () => {
  it('runs so many tasks at a time in each worker', async () => {
    const spool = spoolDirectory()
    const daemon = await startActor(spool, { 'spooler-concurrency': 4 })
    const gate = join(daemon.directory, 'gate')
    const numbers = Array.from({ length: 6 }, () => act(spool, 'hold', { until: gate }))
    await until('four run', () => daemon.journal().length === 4)
    writeFileSync(gate, '')
    for (const n of numbers) await ended(daemon, n)
    assert.equal(new Set(numbers.map(n => pidOf(daemon, n))).size, 1)
  })
})

describe('a cheap spool', () => {
  it('has no process while idle, one as soon as there is work, and none again', async () => {
    const spool = spoolDirectory()
    // looking at the directory all the time does not keep it from going
    const daemon = await startActor(spool, {
      'spooler-cheap': true,
      'spooler-processes': 2,
      'spooler-frequency': 0.1,
      'spooler-watch': 'off',
    })
    await until('it is cheaped', () => daemon.children().length === 0)
    await daemon.waitFor(/- cheaping spooler .* \.\.\./)
    const n = act(spool, 'ok')
    await ended(daemon, n)
    assert.equal(daemon.children().length, 1)
    await until('it is cheaped again', () => daemon.children().length === 0)
    assert.doesNotMatch(daemon.output, /OOOPS/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})
