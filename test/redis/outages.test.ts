import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { spool } from '#src/engines/client/spool.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { startRedis, type TestRedis } from '../helpers/redis.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { startWatched } from '../helpers/sentinel.js'
import { patience, stopwatch, until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { daemonOn } from './redis-daemon.js'

/** How long Redis is away. */
const AWAY_MS = isLong ? 60_000 : 5000
/** A daemon is back within this time. */
const BACK_MS = 2000
/** The interval at which tasks are stored. */
const EVERY_MS = 20
/** The most lines that each daemon may log, from the end of Redis until all is as it was. */
const LINES = 12
const HANDLER = `export default (env, task) => { JOURNAL(env.n); return task.SPOOL_OK }`

interface Storing {
  readonly n: number
  /** Where the task is stored, or undefined if it was refused. */
  readonly path: string | undefined
  readonly atMs: number
}

/** Stores one task after another, like a program to which it is all the same where they are. */
function storeUnder(spooler: string) {
  const stored: Storing[] = []
  let isOver = false
  const storing = (async () => {
    for (let n = 0; !isOver; n++) {
      const path = await spool({ n: String(n) }, { spooler }).catch(() => undefined)
      stored.push({ n, path, atMs: Date.now() })
      await setTimeout(EVERY_MS)
    }
  })()
  const end = () => {
    isOver = true
    return storing
  }
  after(end)
  return { stored, end }
}

describe('daemons whose Redis goes away under load', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis({ durability: 'always' })
  before(() => redis.ready())

  /** Starts a daemon that runs tasks one at a time, so that its journal has their order, and another one that forwards. */
  async function start(spooler: string) {
    const fallback = spoolDirectory()
    const runner = await daemonOn(spooler, { handler: HANDLER, ini: { 'spooler-quiet': true } })
    const forwarder = await startDaemon({
      spool: spoolDirectory(),
      isAside: true,
      isForeign: true,
      ini: { 'spooler-external': spooler, 'spooler-fallback': fallback, 'spooler-quiet': true },
    })
    const daemons = [runner, forwarder]
    await until('the runner has a worker', () => runner.children().length === 1)
    const pids = runner.children()
    const load = storeUnder(`${spooler}?fallback=${fallback}`)
    await until('tasks run', () => runner.journal().length > 50)
    const said = daemons.map(daemon => daemon.output.length)
    const linesSince = (daemon: Daemon, i: number) => daemon.output.slice(said[i]).trim().split('\n')
    return { fallback, runner, daemons, pids, load, linesSince }
  }
  type Scene = Awaited<ReturnType<typeof start>>

  /** Waits until a task from the directory runs, which needs both daemons. @param say prints into the output of the tests */
  async function isBackSoon({ fallback, runner, load }: Scene, say: (line: string) => void): Promise<void> {
    const took = stopwatch(runner.pid)
    const isLocal = (line: string) => load.stored[Number(line)]?.path?.startsWith(fallback) === true
    await until('a forwarded task runs', () => runner.journal().some(isLocal))
    const tookMs = Math.round(took())
    say(`forwarded tasks run after ${tookMs} ms`)
    assert.ok(tookMs < BACK_MS * patience(), `${tookMs} ms`)
  }

  /** @returns the tasks stored in Redis that have not run, and the tasks that have run more than once */
  async function goesOn(scene: Scene, say: (line: string) => void) {
    const { fallback, runner, daemons, pids, load, linesSince } = scene
    const isLocal = ({ path }: Storing) => path?.startsWith(fallback) === true
    await until('tasks are stored in Redis again', () => load.stored.at(-1)?.path?.startsWith('redis'))
    await load.end()
    const local = load.stored.filter(isLocal).map(({ n }) => n)
    assert.ok(local.length > 10, `${local.length} were stored in the directory`)
    assert.ok(
      load.stored.every(({ path }) => path !== undefined),
      'none was refused',
    )
    const ran = () => runner.journal().map(Number)
    const last = load.stored.at(-1)?.n
    await until('all forwarded tasks and the last task have run', () => {
      const known = new Set(ran())
      return local.every(n => known.has(n)) && known.has(last ?? 0)
    })
    const places = new Set(local)
    assert.deepEqual(
      ran().filter(n => places.has(n)),
      local,
      'all tasks ran once, in order',
    )
    const lines = daemons.map(linesSince)
    say(
      `${load.stored.length} tasks, ${local.length} through the directory; lines: ${lines.map(each => each.length)}`,
    )
    for (const each of lines) assert.ok(each.length <= LINES, each.join('\n'))
    assert.deepEqual(runner.children(), pids, 'its worker is the same')
    const spawned = lines[1]?.filter(line => line.startsWith('spawned')) ?? []
    assert.ok(spawned.length <= 1, 'the forwarder has a process while there is something to do')
    const kept = load.stored.filter(task => !isLocal(task))
    const counts = new Map<number, number>()
    for (const n of ran()) counts.set(n, (counts.get(n) ?? 0) + 1)
    const lost = kept.filter(({ n }) => !counts.has(n))
    const again = [...counts.keys()].filter(n => (counts.get(n) ?? 0) > 1)
    return { lost, again }
  }

  it(`are back soon after ${AWAY_MS / 1000} s, log little, and run every task once`, async t => {
    const spooler = redis.address('restarted')
    const scene = await start(spooler)
    await redis.kill()
    await setTimeout(AWAY_MS) // the time that the test is about
    await redis.restart()
    const say = (line: string) => t.diagnostic(line)
    await isBackSoon(scene, say)
    assert.deepEqual(await goesOn(scene, say), { lost: [], again: [] })
  })

  it('lose only tasks that were not yet replicated when sentinel promotes another server', async t => {
    const { master, masterPort, sentinel, address } = await startWatched()
    const scene = await start(address('promoted'))
    const client = new Redis(masterPort)
    const replicatedAtMs = Date.now()
    await client.incr('written after them')
    assert.equal(await client.wait(1, 60_000), 1)
    client.disconnect()
    const diedAtMs = Date.now()
    master.child.kill('SIGKILL')
    await sentinel.waitFor('+switch-master')
    const say = (line: string) => t.diagnostic(line)
    say(`promoted after ${Date.now() - diedAtMs} ms`)
    await isBackSoon(scene, say)
    const { lost, again } = await goesOn(scene, say)
    say(`lost ${lost.length}, run again ${again.length}`)
    const early = lost.filter(({ atMs }) => atMs < replicatedAtMs)
    assert.deepEqual(early, [])
    assert.ok(again.length <= 5, `run again: ${again}`)
  })
})
