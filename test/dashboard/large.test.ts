import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoolSnapshotOf } from '../helpers/control.js'
import type { Daemon } from '../helpers/daemon.js'
import { Browser, give, startDashboard } from '../helpers/dashboard.js'
import { drop, packet } from '../helpers/files.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { cpuMsOfTree, memoryMb } from '../helpers/usage.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TASKS = isLong ? 1_000_000 : 100_000
/** Processor time of the daemon and of all that it has started, to within 20 ms. A busy machine does not add to it. */
const PAGE_MS = 600
const CHILD_MB = 80
/** How much memory pages may cost the daemon that they ask, above what it takes by itself. */
const MASTER_MB = 12
/** How much memory pages may leave in use there. Garbage is not counted: it takes room that the daemon already had. */
const KEPT_MB = 2
const PATHS = ['', '/waiting', '/waiting?show=later', '/running', '/retrying', '/dead', '/workers']
/** Pages far down the lists. */
const DEEP_PATHS = ['/waiting?from=24000', '/waiting?from=49950']
const DEEP_MS = 2000

/** A module that is loaded before the daemon: at SIGPWR it collects the garbage, and prints what is left, in MB. */
const COLLECTS = `
  import { setFlagsFromString } from 'node:v8'
  import { runInNewContext } from 'node:vm'
  process.on('SIGPWR', () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc')
    for (let i = 0; i < 2; i++) collect()
    const { heapUsed, external } = process.memoryUsage()
    console.log('keeps ' + (heapUsed + external) / 2 ** 20 + ' MB')
  })`

async function keptMb(daemon: Daemon): Promise<number> {
  const before = daemon.output.length
  process.kill(daemon.pid, 'SIGPWR')
  const said = () => /^keeps (.*) MB$/m.exec(daemon.output.slice(before))?.[1]
  return Number(await until('the daemon says how much memory it keeps', said))
}

/** Drops two dead letters. The daemon keeps one, and logs so once it has looked through the whole spool. */
function dropDeadLetters(spool: string): void {
  for (const path of ['.spoold', '.spoold/dead']) {
    mkdirSync(join(spool, path))
    give(join(spool, path))
  }
  for (let i = 0; i < 2; i++) give(drop(join(spool, '.spoold/dead')))
}

/** Returns a spool of tasks of which half are due and half wait for their time. */
function filled(): string {
  const spool = spoolDirectory()
  const bytes = packet({ to: 'joe', at: '0' })
  const later = packet({ to: 'joe', at: String(Math.ceil(Date.now() / 1000) + 86_400) })
  for (let i = 0; i < TASKS; i++) {
    const path = join(spool, `uwsgi_spoolfile_on_h_1_${i}_1_${1_700_000_000 + (i % 1000)}_${i}`)
    writeFileSync(path, i % 2 === 0 ? bytes : later)
    give(path)
  }
  return spool
}

/** Returns the memory of a process once it has stayed the same for a while: what its start needed is given back. */
async function settledMemory(pid: number): Promise<number> {
  let [last, same] = [0, 0]
  await until('the memory of the process is settled', () => {
    const now = memoryMb(pid)
    same = Math.abs(now - last) < 0.2 ? same + 1 : 0
    last = now
    return same > 100
  })
  return last
}

describe('the dashboard of a very large spool', () => {
  it(`shows pages of ${TASKS} tasks with little processor time and memory, its own and the daemon's`, async t => {
    const filledSpool = filled()
    dropDeadLetters(filledSpool)
    const collects = join(dirname(filledSpool), 'collects.mjs')
    writeFileSync(collects, COLLECTS)
    const { daemon, spool, id, place, tokenOf, pid } = await startDashboard({
      spool: filledSpool,
      handler: 'export default () => new Promise(() => setInterval(() => {}, 1000))',
      ini: { 'worker-reload-mercy': 1, 'spooler-dead-max-count': 1 },
      // V8 takes up to 32 MB for new objects; when it does depends on how busy the machine is, and only what is kept is measured
      env: { NODE_OPTIONS: `--max-semi-space-size=1 --import=${collects}` },
    })
    await until('a task runs', async () => (await spoolSnapshotOf(spool)).tasks.running === 1, 120_000)
    const browser = new Browser(place)
    await browser.logIn(tokenOf('operator', true))
    await browser.get('/') // loads what is loaded only once
    // the daemon lists the spool once more, and sweeps it ten seconds after its start: that alone takes up to 16 MB
    await daemon.waitFor('purged 1 dead letter', 120_000)
    const keptBefore = await keptMb(daemon)
    const before = await settledMemory(daemon.pid)
    const took: string[] = []
    const look = async (path: string, limitMs: number) => {
      const before = cpuMsOfTree(daemon.pid)
      const { status, text } = await browser.get(`/spools/${id}${path}`)
      const ms = cpuMsOfTree(daemon.pid) - before
      took.push(`${path || '/'} ${ms} ms`)
      assert.equal(status, 200, text)
      assert.ok(ms <= limitMs, `${path} took ${ms} ms of a processor`)
      return text
    }
    for (const path of PATHS) await look(path, PAGE_MS)
    const after = memoryMb(daemon.pid)
    const keptAfter = await keptMb(daemon)
    for (const path of DEEP_PATHS) assert.match(await look(path, DEEP_MS), /<a class="path"/)
    const deepAfter = memoryMb(daemon.pid)
    const settled = await settledMemory(daemon.pid)
    const child = memoryMb(pid() ?? 0)
    t.diagnostic(
      `${took.join(', ')}; dashboard ${child} MB, daemon ${before} MB, then ${after} MB, far down ${deepAfter} MB, settled ${settled} MB; it keeps ${keptBefore} MB, then ${keptAfter} MB`,
    )
    assert.ok(child > 0 && child <= CHILD_MB, `the dashboard has ${child} MB`)
    assert.ok(
      keptAfter - keptBefore <= KEPT_MB,
      `the daemon kept ${keptBefore} MB, and keeps ${keptAfter} MB`,
    )
    assert.ok(after - before <= MASTER_MB, `the daemon had ${before} MB, and has ${after} MB`)
  })
})
