import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { linkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import {
  assertWhole,
  checks,
  lines,
  present,
  processesOf,
  put,
  scaledTo,
  startScaled as start,
  stop,
} from '../helpers/adaptive.js'
import { spoold } from '../helpers/cli.js'
import { controlOf, snapshotOf, spoolSnapshotOf } from '../helpers/control.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { leftIn, taskName } from '../helpers/files.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const FUTURE = 2000
const MILLION = 1_000_000
const LATER = Date.now() / 1000 + 36_000
/** Algorithms that grow for waiting tasks; the first one grows at the first task too many. */
const EAGER_TO_GROW = ['backlog', 'spare', 'busyness', 'latency']
const QUICK_TO_GROW = { cheaper: 1, workers: 4, 'cheaper-overload': 1, 'cheaper-busyness-backlog-alert': 1 }
/** A file can have so many names on every file system. */
const MOST_NAMES = 50_000

const BRAKES = [
  {
    what: 'the spool is paused',
    on: async (spool: string, daemon: Daemon) => {
      await succeeds(spoold(['pause', spool]))
      await daemon.waitFor(/\] paused: all tasks$/m)
    },
    off: (spool: string) => succeeds(spoold(['resume', spool])),
  },
  {
    what: 'the daemon is quiet',
    on: (spool: string) => askDaemon(controlOf(spool), 'quiet', {}),
    off: (spool: string) => askDaemon(controlOf(spool), 'unquiet', {}),
  },
]

/** Puts tasks of one time, as names of a few files, because making a million files takes longer than all else. */
function putLater(spool: string, count: number, mtime: number) {
  for (let left = count; left > 0; left -= MOST_NAMES) {
    const [first = ''] = put(spool, 1, {}, mtime)
    for (let i = 1; i < Math.min(left, MOST_NAMES); i++) linkSync(join(spool, first), join(spool, taskName()))
  }
}

/** A handler that loads slowly in every process but the first. */
const ONE_LOADS_SLOWLY = `
import { mkdirSync } from 'node:fs'
try {
  mkdirSync(import.meta.dirname + '/loaded')
} catch {
  await new Promise(resolve => setTimeout(resolve, 500))
}
export default () => -2`

/** Checks that the pool never grows while so many tasks that are not due become known. */
async function staysSmall(spool: string, daemon: Daemon, algorithm: string, tasks: number) {
  assert.equal((await processesOf(spool)).size.algorithm, algorithm)
  const isKnown = async () => (await spoolSnapshotOf(spool)).tasks.waiting === tasks
  await until('the tasks are known', isKnown, 300_000)
  await until('many checks have passed', checks(20))
  assert.deepEqual(scaledTo(daemon), [])
}

async function succeeds(command: ReturnType<typeof spoold>): Promise<void> {
  assert.equal((await command).code, 0)
}

describe('adaptive processes', () => {
  it('grow by cheaper-step to the maximum under a spike, and shrink to the minimum when it is over', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, { cheaper: 1, workers: 4, 'cheaper-step': 2, 'cheaper-overload': 2 })
    assert.equal(await present(spool), 1)
    const names = put(spool, 150, { ms: '20' })
    await until('the pool has four processes', async () => {
      if (leftIn(spool).length < 50) names.push(...put(spool, 50, { ms: '20' })) // the start of a process may take long
      return (await present(spool)) === 4
    })
    const { size } = await processesOf(spool)
    assert.deepEqual([size.algorithm, size.minimum, size.maximum, size.isByHand], ['spare', 1, 4, false])
    await until('all tasks have run', () => leftIn(spool).length === 0)
    await until('the pool has one process', async () => daemon.workers().length === 1)
    const changes = scaledTo(daemon)
    assert.ok(changes.every(([from = 0, to = 0]) => to <= 4 && to >= 1 && to - from <= 2 && to - from >= -1))
    assert.deepEqual(changes.at(-1), [2, 1])
    assertWhole(daemon, names)
    await daemon.waitFor(/\] 3 processes, not 1: all 1 busy for 3 ticks \(spare\)/)
    await daemon.waitFor(/cheaped after \d+(\.\d+)? s idle/)
    assert.doesNotMatch(daemon.output, /OOOPS/)
    await stop(daemon)
  })

  it('follow spare if cheaper-algo names no known algorithm, and say so', async () => {
    const spool = spoolDirectory()
    const daemon = await start(spool, { cheaper: 1, workers: 4, 'cheaper-algo': 'cheaper' })
    await daemon.waitFor(/unable to find requested cheaper algorithm, falling back to spare/)
    assert.equal((await processesOf(spool)).size.algorithm, 'spare')
    await stop(daemon)
  })

  for (const brake of BRAKES)
    it(`do not grow while ${brake.what}, and grow afterwards`, async () => {
      const spool = spoolDirectory()
      const daemon = await start(spool, {
        cheaper: 1,
        workers: 3,
        'cheaper-overload': 2,
        'cheaper-algo': 'backlog',
      })
      await brake.on(spool, daemon)
      put(spool, 40, { ms: '50' })
      await until('the tasks are known', async () => (await spoolSnapshotOf(spool)).tasks.due === 40)
      await until('many checks have passed', checks(20))
      assert.deepEqual([scaledTo(daemon), leftIn(spool).length], [[], 40])
      await brake.off(spool)
      await until('the pool has three processes', async () => {
        if (leftIn(spool).length < 20) put(spool, 20, { ms: '50' })
        return (await present(spool)) === 3
      })
      await until('all tasks have run', () => leftIn(spool).length === 0)
      await stop(daemon)
    })

  it(`do not grow for ${FUTURE} tasks for later, whatever the algorithm`, async () => {
    const spool = spoolDirectory()
    putLater(spool, FUTURE, LATER)
    for (const algorithm of EAGER_TO_GROW) {
      const daemon = await start(spool, { ...QUICK_TO_GROW, 'cheaper-algo': algorithm })
      await staysSmall(spool, daemon, algorithm, FUTURE)
      await stop(daemon)
    }
    assert.equal(leftIn(spool).length, FUTURE)
  })

  it('do not grow for tasks for later while another spool of the daemon is being opened', async () => {
    const spools = [spoolDirectory(), spoolDirectory()] as const
    for (const spool of spools) putLater(spool, FUTURE, LATER)
    const daemon = await startDaemon({
      spool: spools[0],
      handler: ONE_LOADS_SLOWLY,
      ini: { spooler: spools, 'check-interval': 0.05, ...QUICK_TO_GROW, 'cheaper-algo': 'backlog' },
    })
    const areKnown = async () =>
      (await snapshotOf(spools[0])).spools.every(({ tasks }) => tasks.later === FUTURE)
    await until('the tasks are known', areKnown)
    await until('many checks have passed', checks(20))
    assert.deepEqual(scaledTo(daemon), [])
    await stop(daemon)
  })

  it('do not grow for a million tasks for later', { skip: !isLong }, async () => {
    const spool = spoolDirectory(tmpdir())
    putLater(spool, MILLION, LATER)
    const [first = '', ...others] = EAGER_TO_GROW
    const daemon = await start(spool, { ...QUICK_TO_GROW, 'cheaper-algo': first })
    await staysSmall(spool, daemon, first, MILLION)
    let before = first
    for (const algorithm of others) {
      // A reload keeps what is known of each task; to look at all of them takes minutes.
      execFileSync('sed', ['-i', `s/^cheaper-algo = ${before}/cheaper-algo = ${algorithm}/`, daemon.iniFile])
      before = algorithm
      const reloads = daemon.output.split('reloaded').length
      daemon.child.kill('SIGHUP')
      await until('the daemon has reloaded', () => daemon.output.split('reloaded').length > reloads)
      await staysSmall(spool, daemon, algorithm, MILLION)
    }
    await stop(daemon)
    assert.equal(leftIn(spool).length, MILLION)
  })

  it('start as cheaper-initial says, and keep their number with the algorithm manual', async () => {
    const spool = spoolDirectory()
    const ini = { cheaper: 1, workers: 5, 'cheaper-initial': 3, 'cheaper-algo': 'manual' }
    const daemon = await start(spool, ini)
    await until('three processes are present', async () => (await present(spool)) === 3)
    await until('many checks have passed', checks(10))
    assert.deepEqual(scaledTo(daemon), [])
    await stop(daemon)
  })

  it('start as cheaper-initial says, and spare2 lets one go after each cheaper-idle checks', async () => {
    const spool = spoolDirectory()
    const ini = { cheaper: 2, workers: 6, 'cheaper-initial': 5, 'cheaper-idle': 20, 'cheaper-algo': 'spare2' }
    const daemon = await start(spool, ini)
    const since = performance.now()
    await until('two processes are left', () => daemon.workers().length === 2)
    assert.ok(performance.now() - since > 3 * 20 * 40, `after ${performance.now() - since} ms`)
    assert.deepEqual(scaledTo(daemon), [
      [5, 4],
      [4, 3],
      [3, 2],
    ])
    await daemon.waitFor(/\] 4 processes, not 5: [345] idle for 20 ticks \(spare2\)/)
    assert.equal(daemon.output.split('spawned the uWSGI spooler').length - 1, 5)
    await stop(daemon)
  })
})

describe('spools of one daemon', { skip: skipUnless('mkfifo') }, () => {
  it('scale each on its own: + is for the spool whose tasks wait, - for the idle one, none below its minimum', async () => {
    const [calm, full, wild] = [spoolDirectory(), spoolDirectory(), spoolDirectory()]
    const fifo = join(dirname(calm), 'fifo')
    const daemon = await start(calm, {
      spooler2: [
        `dir=${calm},processes=5,cheaper=2,cheaper-initial=3,cheaper-algo=manual`,
        `dir=${full},processes=4,cheaper=1,cheaper-algo=manual`,
        `dir=${wild},processes=3,cheaper=1,cheaper-algo=backlog,cheaper-overload=5`,
      ],
      'master-fifo': fifo,
    })
    const seen = async () => {
      const { spools } = await snapshotOf(calm)
      return [calm, full, wild].map(spool => spools.find(each => each.directory === spool)?.processes)
    }
    const become = (what: string, ...counts: number[]) =>
      until(what, async () => (await seen()).map(each => each?.present).join() === counts.join())
    await become('each has what it starts with', 3, 1, 1)
    assert.deepEqual(
      (await seen()).map(each => [each?.size.algorithm, each?.size.minimum, each?.size.maximum]),
      [
        ['manual', 2, 5],
        ['manual', 1, 4],
        ['backlog', 1, 3],
      ],
    )
    const names = put(full, 4, { ms: '4000' })
    await until('one task is running', () => lines(daemon, 'start').length === 1)
    writeFileSync(fifo, '+')
    await become('the one whose tasks wait has one more', 3, 2, 1)
    writeFileSync(fifo, '-')
    await become('the one that is idle has one less', 2, 2, 1)
    names.push(...put(wild, 200, { ms: '50' }))
    await become('the one with too much to do has all that it may', 2, 2, 3)
    await until('the tasks of the third spool have run', () => leftIn(wild).length === 0)
    await become('it has its minimum again', 2, 2, 1)
    await until('all tasks have run', () => leftIn(full).length === 0)
    writeFileSync(fifo, '---')
    await become('all have their minimum', 2, 1, 1)
    await until('many checks have passed', checks(20))
    await become('they keep it', 2, 1, 1)
    assertWhole(daemon, names)
    await stop(daemon)
  })
})
