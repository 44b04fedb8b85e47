import assert from 'node:assert/strict'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { askDaemon } from '#src/engines/control/client.js'
import { controlOf, sendRaw, snapshotOf } from '../helpers/control.js'
import { Crowd, type Places } from '../helpers/crowd.js'
import { startDaemon } from '../helpers/daemon.js'
import { ask, exporterOf } from '../helpers/exporter.js'
import { drop, leftIn } from '../helpers/files.js'
import { socketsOf } from '../helpers/proc.js'
import { patience, until } from '../helpers/until.js'
import { cpuMsOf, openFiles, peakMemoryMb } from '../helpers/usage.js'
import { spoolDirectory } from '../helpers/workspace.js'

const CROWD = 2000
const TASKS = 300
/** CPU time of the master per thousand connections of the crowd: about six times what they take. */
const MASTER_CPU_MS = 800
const MEGABYTES = 160
/** The longest deadline is 15 s, of a kept connection without a request. */
const DEADLINES_MS = 40_000

async function observed(under: readonly string[]) {
  const spool = spoolDirectory()
  const view = join(dirname(spool), 'view.sock')
  const daemon = await startDaemon({
    spool,
    under,
    handler: 'export default () => -2',
    ini: {
      stats: '127.0.0.1:0',
      'spooler-metrics': '127.0.0.1:0',
      'spooler-control': `${view},role=viewer`,
      'spooler-quiet': true,
    },
  })
  const portOf = async (what: string) =>
    Number(
      await until(
        `${what} is enabled`,
        () => new RegExp(`${what} enabled on \\S+:([0-9]+)`).exec(daemon.output)?.[1],
      ),
    )
  const [stats, metrics] = [await portOf('Stats server'), await portOf('metrics')]
  const places: Places = {
    stats: { port: stats, host: '127.0.0.1' },
    metrics: { port: metrics, host: '127.0.0.1' },
    control: { path: controlOf(spool) },
    view: { path: view },
  }
  const exporter = exporterOf(daemon) ?? assert.fail('no exporter')
  return { spool, daemon, exporter, metrics, view, places }
}

/** Returns how long tasks take that come one after another, and how much CPU time of the master, both in ms. */
async function timeOfTasks(spool: string, pid: number) {
  const [since, cpuSince] = [performance.now(), cpuMsOf(pid)]
  for (let i = 0; i < TASKS; i++) {
    drop(spool)
    if (i % 10 === 9) await until('the tasks have run', () => leftIn(spool).length === 0)
  }
  return { ms: performance.now() - since, cpuMs: cpuMsOf(pid) - cpuSince }
}

/** True if the answer is right. False also for a client whose place another one took, which would try again. */
const isRight = (answer: () => Promise<boolean>) => answer().catch(() => false)

/** Waits until an honest client of each door is answered, at the latest when the client tries again. */
async function areServed(spool: string, metrics: number, view: string): Promise<void> {
  await until('metrics are answered', () =>
    isRight(async () => (await ask(metrics, '/metrics')).text.includes('spooler_tasks')),
  )
  await until('the control socket answers', () =>
    isRight(async () => !(await snapshotOf(spool)).daemon.isQuiet),
  )
  await until('the socket of viewers answers', () =>
    isRight(async () => {
      const { daemon } = (await askDaemon(view, 'snapshot', {})) as Awaited<ReturnType<typeof snapshotOf>>
      return daemon.state === 'running'
    }),
  )
}

async function areRefused(metrics: number, view: string): Promise<void> {
  await until('a viewer is refused', () =>
    isRight(async () => {
      const [reply] = await sendRaw(view, '{"v":1,"id":1,"verb":"stop"}\n')
      return (reply as { error?: { code: string } } | undefined)?.error?.code === 'forbidden'
    }),
  )
  await until('another site is refused', () =>
    isRight(async () => (await ask(metrics, '/metrics', { host: 'rebound.example' })).status === 421),
  )
}

async function withstands(told: (text: string) => void, under: readonly string[] = []) {
  const { spool, daemon, exporter, metrics, view, places } = await observed(under)
  await timeOfTasks(spool, daemon.pid) // warm
  const alone = await timeOfTasks(spool, daemon.pid)
  const crowd = new Crowd({ places, count: CROWD, returns: true })
  await until('the crowd is there', () => crowd.rounds > 3)
  const [cameBefore, cpuBefore] = [crowd.cameToMaster, cpuMsOf(daemon.pid)]
  const besides = await timeOfTasks(spool, daemon.pid)
  await until('many clients came', () => crowd.cameToMaster > cameBefore + 2000)
  const cpuMs = cpuMsOf(daemon.pid) - cpuBefore - alone.cpuMs
  const perThousand = cpuMs / ((crowd.cameToMaster - cameBefore) / 1000)
  told(
    `${TASKS} tasks took ${Math.round(besides.ms)} ms, and ${Math.round(alone.ms)} without the ${CROWD}; ` +
      `a thousand connections took ${Math.round(perThousand)} ms of the master`,
  )
  assert.ok(perThousand < MASTER_CPU_MS, `${perThousand} ms per thousand connections`)
  assert.ok(besides.ms <= 10 * alone.ms + 5000 * patience(), `${besides.ms} ms, and ${alone.ms} ms alone`)
  for (const [pid, descriptors] of [
    [daemon.pid, 2 * 64 + 100],
    [exporter, 2 * 128 + 50],
  ] as const) {
    assert.ok(openFiles(pid) < descriptors, `${openFiles(pid)} descriptors`)
    const megabytes = peakMemoryMb(pid)
    told(`${pid === exporter ? 'exporter' : 'master'}: at most ${Math.round(megabytes)} MB`)
    assert.ok(megabytes < MEGABYTES, `${megabytes} MB`)
  }
  await areServed(spool, metrics, view)
  await areRefused(metrics, view)
  await crowd.leave()
  assert.doesNotMatch(daemon.output, /a control client|reloaded|exporter died/)
  const { daemon: facts } = await until('the daemon answers', () => snapshotOf(spool).catch(() => undefined))
  assert.deepEqual([facts.pid, facts.state, facts.isQuiet], [daemon.pid, 'running', false])
}

describe('a crowd on the control socket, stats and metrics', () => {
  it('delays tasks little and changes nothing, and honest clients are answered', async test => {
    await withstands(text => test.diagnostic(text))
  })

  it('delays tasks little and changes nothing, and honest clients are answered, even with 256 descriptors', async test => {
    await withstands(text => test.diagnostic(text), ['prlimit', '--nofile=256'])
  })

  it('that stays is disconnected by the deadlines', async () => {
    const { daemon, exporter, places } = await observed([])
    const [mine, others] = [socketsOf(daemon.pid), socketsOf(exporter)]
    const crowd = new Crowd({ places, count: 100, returns: false })
    await until(
      'the crowd is there',
      () => socketsOf(daemon.pid) > mine + 5 && socketsOf(exporter) > others + 5,
    )
    await until('the master has no client', () => socketsOf(daemon.pid) <= mine, DEADLINES_MS)
    await until('the exporter has no client', () => socketsOf(exporter) <= others, DEADLINES_MS)
    assert.ok(crowd.isRunning, 'the crowd did not leave by itself')
  })
})
