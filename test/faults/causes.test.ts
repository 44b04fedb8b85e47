import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { BESIDE, STARTED } from '#src/engines/spool/state-byte.js'
import { MODIFIER2_OFFSET } from '#src/formats/protocol/header.js'
import { inProcess } from '../helpers/cli.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { deadOf } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from '../hosts/host-daemon.js'

/** Runs tasks by their key `do`; a task that blocks ends when its gate is there. */
const HANDLER = `
  import { existsSync } from 'node:fs'
  const nap = new Int32Array(new SharedArrayBuffer(4))
  export default env => {
    JOURNAL(env.n + ' ' + process.pid)
    while (env.do === 'block' && !existsSync(env.gate)) Atomics.wait(nap, 0, 0, 10)
    while (env.do === 'abort' && env.gate2 !== undefined && !existsSync(env.gate2)) Atomics.wait(nap, 0, 0, 10)
    if (env.do === 'abort') process.abort()
    return -2
  }`

/** Does the same for tasks that block, and journals the worker as their process. */
const PYTHON_HANDLER = `
def spooler(env):
    journal('%s %d' % (env[b'n'].decode(), os.getppid()))
    while env[b'do'] == b'block' and not os.path.exists(env[b'gate']): time.sleep(.01)
    return -2
uwsgi.spooler = spooler
`

const INI = { 'spooler-ordered': true, 'spooler-frequency': 1, 'spooler-max-crashes': 1 }
const nameOf = (i: number) => `uwsgi_spoolfile_on_h_1_${100 + i}`

/** Starts a daemon on 49 quick tasks, which run unreported, and a last task, which is given in the same batch. */
async function runBehindQuickOnes(spool: string, what: string, ini: object): Promise<Daemon> {
  dropBehindQuickOnes(spool, what, 49)
  return await startDaemon({ spool, handler: HANDLER, ini: { ...INI, ...ini } })
}

/** @param ahead how many more quick tasks come after the task `what` */
function dropBehindQuickOnes(spool: string, what: string, quick: number, ahead = 0): void {
  const gate = join(dirname(spool), 'gate')
  for (let i = 0; i <= quick + ahead; i++)
    drop(spool, nameOf(i), packet({ n: `n${i}`, do: i === quick ? what : '', gate }))
}

/** Returns the processes in which a task has begun. */
function runsOf(daemon: Daemon, n: string): number[] {
  return daemon.journal().flatMap(line => {
    const [which, pid] = line.split(' ')
    return which === n ? Number(pid) : []
  })
}

const markOf = (spool: string, name: string) => readFileSync(join(spool, name))[MODIFIER2_OFFSET]

/** Returns the tasks that are marked, each with its mark. */
function markedIn(spool: string): Array<readonly [name: string, mark: number | undefined]> {
  return leftIn(spool)
    .map(name => [name, markOf(spool, name)] as const)
    .filter(([, mark]) => mark !== 0)
}

/** Returns why each dead task is dead, last error included. */
async function reasonsIn(spool: string): Promise<string[]> {
  return [...(await deadOf(spool))].map(([n, { detail, lastError }]) => `${n}: ${lastError ?? detail}`)
}

describe('a process that ends while it runs a task whose start it has not reported', () => {
  it('is blamed on that task alone if the task overran spooler-harakiri', async () => {
    const spool = spoolDirectory()
    const daemon = await runBehindQuickOnes(spool, 'block', { 'spooler-harakiri': 2 })
    await until('all tasks are over', () => leftIn(spool).length === 0)
    assert.deepEqual(await reasonsIn(spool), ['n49: it overran spooler-harakiri (2 s)'])
    const named = daemon.output.match(/uwsgi_spoolfile_on_h_1_\d+(?=.* overran)/g)
    assert.deepEqual([...new Set(named)], [nameOf(49)])
  })

  it('is blamed on that task alone if the task crashed', async () => {
    const spool = spoolDirectory()
    const daemon = await runBehindQuickOnes(spool, 'abort', {})
    await until('all tasks are over', () => leftIn(spool).length === 0)
    assert.deepEqual(await reasonsIn(spool), ['n49: its process was killed by SIGABRT'])
    await daemon.waitFor(`the process was killed by SIGABRT; it had ${nameOf(49)}\n`)
  })

  it('is blamed on no task if it was killed for a reload', async () => {
    const spool = spoolDirectory()
    const daemon = await runBehindQuickOnes(spool, 'block', { 'worker-reload-mercy': 1 })
    const begun = () => runsOf(daemon, 'n49').length
    await until('the task blocks', () => begun() === 1)
    daemon.child.kill('SIGHUP')
    await until('the task runs again, or is buried', () => begun() === 2 || leftIn(spool).length === 0)
    writeFileSync(join(dirname(spool), 'gate'), '')
    await until('all tasks are over', () => leftIn(spool).length === 0)
    assert.deepEqual(await reasonsIn(spool), [])
    assert.ok(
      !existsSync(join(spool, '.spoold/records')) || leftIn(join(spool, '.spoold/records')).length === 0,
    )
  })

  it('is blamed on no task even if the daemon ends before the task runs again', async () => {
    const spool = spoolDirectory()
    const daemon = await runBehindQuickOnes(spool, 'block', { 'worker-reload-mercy': 1 })
    await until('the task blocks', () => runsOf(daemon, 'n49').length === 1)
    const [file = ''] = leftIn(spool)
    await until('the run is marked', () => markOf(spool, file) === STARTED)
    await inProcess(['pause', spool])
    daemon.child.kill('SIGHUP')
    await until('the mark is taken off', () => markOf(spool, file) === 0)
    daemon.child.kill('SIGKILL')
    await daemon.code()
    assert.deepEqual([leftIn(spool), await reasonsIn(spool)], [[file], []])
  })

  it('is blamed on the task that crashed it, though the process that was given that task before is killed at a stop', async () => {
    const spool = spoolDirectory()
    const [gate, gate2] = [join(dirname(spool), 'gate'), join(dirname(spool), 'gate2')]
    for (let i = 0; i < 200; i++) drop(spool, `uwsgi_spoolfile_on_h_0_${100 + i}`, packet({ n: 'quick' }))
    const daemon = await startDaemon({
      spool,
      handler: HANDLER,
      ini: {
        'spooler-ordered': true,
        'spooler-processes': 2,
        'spooler-max-crashes': 1,
        'worker-reload-mercy': 1,
      },
    })
    await until('many tasks are given at a time', () => leftIn(spool).length === 0)
    await inProcess(['pause', spool])
    await daemon.waitFor(' paused: ')
    for (const [i, what] of ['block', 'abort', ...Array(48).fill('')].entries())
      drop(spool, nameOf(i), packet({ n: `n${i}`, do: what, gate, gate2 }))
    await inProcess(['resume', spool])
    await until('both tasks are under way', () => ['n0', 'n1'].every(n => runsOf(daemon, n).length > 0))
    await inProcess(['pause', spool])
    await until('nothing more begins', () => [...daemon.output.matchAll(/ paused: /g)].length === 2)
    writeFileSync(gate2, '')
    await daemon.waitFor('SIGABRT')
    daemon.child.kill('SIGTERM')
    await daemon.code()
    assert.deepEqual([markOf(spool, nameOf(0)), markOf(spool, nameOf(1))], [0, STARTED])
  })
})

const JAVASCRIPT = { title: 'JavaScript', isPython: false, concurrency: 1 }
const CONCURRENT = { title: 'JavaScript, four at a time', isPython: false, concurrency: 4 }
const PYTHON = { title: 'Python', isPython: true, concurrency: 1 }

type Kind = typeof JAVASCRIPT

const needsOf = ({ isPython }: Kind) => ({ skip: isPython && skipUnless('python3') })

/** After so many quick tasks, a worker is given many at a time. */
const QUICK = 300
/** How many tasks are given behind the task that blocks. */
const AHEAD = 5
const BLOCKS = `n${QUICK}`

/** Starts a daemon in which a task blocks behind quick ones of its batch. `next` starts another daemon there. */
async function blockedBehindQuickOnes({ isPython, concurrency }: Kind) {
  const spool = spoolDirectory()
  const next = () => {
    const setup = {
      spool,
      handler: isPython ? PYTHON_HANDLER : HANDLER,
      ini: { ...INI, 'spooler-concurrency': concurrency, 'spooler-quiet': true, 'worker-reload-mercy': 1 },
      isGroup: true, // a worker that outlives its master ends with the test
    } as const
    return isPython ? startHost('python', setup) : startDaemon(setup)
  }
  dropBehindQuickOnes(spool, 'block', QUICK, AHEAD)
  const daemon = await next()
  const worker = await until('the task blocks', () => runsOf(daemon, BLOCKS)[0])
  await until('the answers of an interpreter have been read', () => leftIn(spool).length === 1 + AHEAD)
  return { spool, daemon, worker, next, open: () => writeFileSync(join(dirname(spool), 'gate'), '') }
}

/** Checks that the blocking task has begun so many times, and every other task once. */
function assertRuns(daemon: Daemon, times: number): void {
  const others = Array.from({ length: QUICK + 1 + AHEAD }, (_, i) => `n${i}`).filter(n => n !== BLOCKS)
  const begun = daemon.journal().map(line => line.split(' ')[0])
  assert.deepEqual(begun.filter(n => n !== BLOCKS).sort(), others.sort())
  assert.equal(runsOf(daemon, BLOCKS).length, times)
}

const isOver = (spool: string) => () => leftIn(spool).length === 0

describe('a task that blocks behind quick ones, before its start is reported', { concurrency: 3 }, () => {
  for (const kind of [JAVASCRIPT, PYTHON])
    it(
      `runs again after a stop whose mercy is over, as if it had not begun: ${kind.title}`,
      needsOf(kind),
      async () => {
        const { spool, daemon, next, open } = await blockedBehindQuickOnes(kind)
        daemon.child.kill('SIGTERM')
        assert.equal(await daemon.code(), 0)
        assert.deepEqual([leftIn(spool).length, markedIn(spool)], [AHEAD + 1, []])
        open()
        await next()
        await until('all tasks are over', isOver(spool))
        assertRuns(daemon, 2)
        assert.deepEqual(await reasonsIn(spool), [])
      },
    )

  for (const kind of [JAVASCRIPT, CONCURRENT])
    it(`is ended by spoold cancel, and no other task is: ${kind.title}`, async () => {
      const { spool, daemon } = await blockedBehindQuickOnes(kind)
      const path = join(spool, nameOf(QUICK))
      assert.equal((await inProcess(['cancel', path])).stdout, `cancelled ${path}\n`)
      await until('all tasks are over', isOver(spool))
      assertRuns(daemon, 1)
      const letters = [...(await deadOf(spool))].map(([n, { reason, crashes }]) => ({ n, reason, crashes }))
      assert.deepEqual(letters, [{ n: BLOCKS, reason: 'cancelled', crashes: 0 }])
    })

  for (const { deaths, ...kind } of [
    { ...JAVASCRIPT, deaths: 1 },
    { ...CONCURRENT, deaths: 2 }, // the first death is that of a process with other tasks
    { ...PYTHON, deaths: 2 },
  ])
    it(
      `is blamed, and no other task is, when its worker is killed: ${kind.title}`,
      needsOf(kind),
      async () => {
        const { spool, daemon } = await blockedBehindQuickOnes(kind)
        for (let death = 1; death <= deaths; death++) {
          const worker = await until('the task runs', () => runsOf(daemon, BLOCKS)[death - 1], 10_000)
          process.kill(worker, 'SIGKILL')
        }
        await until('all tasks are over', isOver(spool))
        assertRuns(daemon, deaths)
        assert.deepEqual(await reasonsIn(spool), [`${BLOCKS}: its process was killed by SIGKILL`])
      },
    )

  for (const kind of [JAVASCRIPT, CONCURRENT])
    for (const isWorkerKilled of [false, true])
      it(`is a suspect at the next start, and no other task is, when its master was killed${isWorkerKilled ? ' with its worker' : ''}: ${kind.title}`, async () => {
        const { spool, daemon, worker, next, open } = await blockedBehindQuickOnes(kind)
        daemon.child.kill('SIGKILL')
        if (isWorkerKilled) process.kill(worker, 'SIGKILL')
        await until('the master is dead', () => !daemon.isRunning)
        const isAlone = kind.concurrency === 1
        assert.deepEqual(markedIn(spool), [[nameOf(QUICK), isAlone ? STARTED : STARTED | BESIDE]])
        await next()
        if (!isWorkerKilled) {
          await until('the other tasks have run', () => leftIn(spool).length === 1)
          assertRuns(daemon, 1)
          process.kill(worker, 'SIGKILL')
        }
        open()
        await until('all tasks are over', isOver(spool))
        assertRuns(daemon, isAlone ? 1 : 2)
        assert.deepEqual(await reasonsIn(spool), isAlone ? [`${BLOCKS}: its process died`] : [])
      })
})
