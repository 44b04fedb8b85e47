import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { STARTED } from '#src/engines/spool/state-byte.js'
import { MODIFIER2_OFFSET } from '#src/formats/protocol/header.js'
import { spoold } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { type Daemon, type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isLong, type Requirement, skipUnless } from '../helpers/requires.js'
import { patience, until, waitsOf } from '../helpers/until.js'
import { cpuMsOfTree } from '../helpers/usage.js'
import { deadOf } from '../helpers/witness.js'
import { spoolDirectory } from '../helpers/workspace.js'

interface Language {
  readonly needs: readonly Requirement[]
  /** Returns handlers that journal `start NAME TIME` for each run, and end their process if the task says so. */
  setup(directory: string): Partial<DaemonSetup>
}

const LANGUAGES = {
  JavaScript: {
    needs: [],
    setup: () => ({
      handler: `export default (env, task) => {
        JOURNAL('start ' + env.n + ' ' + Date.now())
        if (env.do === 'exit') process.exit(9)
        return task.SPOOL_OK
      }`,
    }),
  },
  Python: {
    needs: ['python3'],
    setup: directory => {
      const text = `
import os, time, uwsgi
def run(env):
    line = 'start %s %d\\n' % (env[b'n'].decode(), time.time() * 1000)
    fd = os.open(${JSON.stringify(join(directory, 'journal'))}, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line.encode())
    os.close(fd)
    if env.get(b'do') == b'exit':
        os._exit(9)
    return uwsgi.SPOOL_OK
uwsgi.spooler = run
`
      writeFileSync(join(directory, 'tasks.py'), text)
      return { isForeign: true, ini: { 'spooler-python-import': 'tasks', pythonpath: directory } }
    },
  },
  'a program': {
    needs: [],
    setup: directory => {
      const file = join(directory, 'program.sh')
      const lines = [
        `echo "start $SPOOL_n $(date +%s%3N)" >> ${join(directory, 'journal')}`,
        '[ "$SPOOL_do" = exit ] && kill -9 $PPID && exit 9',
        'exit 0',
      ]
      writeFileSync(file, `${lines.join('\n')}\n`)
      return { isForeign: true, ini: { 'spooler-exec': `exec sh ${file}` } }
    },
  },
} satisfies Record<string, Language>

const CROWDS: ReadonlyArray<readonly [keyof typeof LANGUAGES, number, number]> = isLong
  ? [50, 12, 6, 3].flatMap(count =>
      (Object.keys(LANGUAGES) as Array<keyof typeof LANGUAGES>).flatMap(language =>
        [1, 2].map(processes => [language, count, processes] as const),
      ),
    )
  : [
      ['JavaScript', 6, 2],
      ['Python', 6, 1],
      ['a program', 6, 1],
    ]
const SECONDS = isLong ? 20 : 6
/** How long an innocent task may wait, in ms, besides one start of a process for each task before it that had never run. */
const WAIT_MS = 2000
/** How long a daemon may need to notice a task, in ms. */
const NOTICE_MS = 300
/** In ms. Where other tasks are always due, as while each start takes long, a crashed task goes before them once in so long. */
const PATIENCE_MS = 60_000
const SHARE = 0.2
const WINDOW_MS = 10_000

interface Begun {
  readonly n: string
  readonly atMs: number
  /** The number of the run, from 1. */
  readonly run: number
}

function begunIn(daemon: Daemon): Begun[] {
  const runs = new Map<string, number>()
  return daemon.journal().map(line => {
    const [, n = '', atMs] = line.split(' ')
    const run = (runs.get(n) ?? 0) + 1
    runs.set(n, run)
    return { n, atMs: Number(atMs), run }
  })
}

/** Drops an innocent task every second. @returns when each was dropped */
async function dropEachSecond(spool: string, seconds: number): Promise<Map<string, number>> {
  const dropped = new Map<string, number>()
  for (let i = 0; i < seconds; i++) {
    drop(spool, `innocent-${i}`, packet({ n: `innocent-${i}` }))
    dropped.set(`innocent-${i}`, Date.now())
    await setTimeout(1000)
  }
  return dropped
}

/**
 * Checks that no innocent task waited for long, or for a task that ran again.
 *
 * @param lateMs for how long this process was late, as the daemon may have been
 * @param waits for how long the daemon and its workers had no processor
 */
function assertServed(
  begun: readonly Begun[],
  dropped: ReadonlyMap<string, number>,
  startMs: number,
  lateMs: number,
  waits: (fromMs: number, toMs: number) => number,
): void {
  const factor = patience()
  const firstMs = Math.min(...begun.map(({ atMs }) => atMs))
  for (const [n, droppedMs] of dropped) {
    const [run] = begun.filter(each => each.n === n)
    assert.ok(run !== undefined, `${n} never began`)
    const before = begun.filter(each => each.atMs >= droppedMs && each.atMs <= run.atMs && each.n !== n)
    const fresh = before.filter(each => each.run === 1).length
    const mostMs = factor * (WAIT_MS + fresh * startMs)
    const waitMs = run.atMs - droppedMs
    assert.ok(
      waitMs <= mostMs,
      `${n} waited ${waitMs} ms behind ${fresh} that had never run, more than ${mostMs}`,
    )
    const noticedMs = (each: Begun) => droppedMs + factor * NOTICE_MS + lateMs + waits(droppedMs, each.atMs)
    const again = before.filter(each => each.run > 1 && each.atMs > noticedMs(each))
    const most = Math.floor((run.atMs - firstMs) / PATIENCE_MS)
    const inMs = again.map(
      each => `${each.n} after ${each.atMs - droppedMs} ms, not ${noticedMs(each) - droppedMs}`,
    )
    assert.ok(again.length <= most, `${n} waited for these that ran again: ${inMs}`)
  }
}

/** @returns the largest share of a processor that the daemon and all its processes took over any window, until `isOver` */
async function busiest(daemon: Daemon, isOver: () => boolean): Promise<number> {
  const samples: Array<{ readonly atMs: number; readonly cpuMs: number }> = []
  let most = 0
  while (!isOver()) {
    const now = { atMs: performance.now(), cpuMs: cpuMsOfTree(daemon.pid) }
    samples.push(now)
    const since = samples.findLast(({ atMs }) => atMs <= now.atMs - WINDOW_MS) ?? samples[0] ?? now
    most = Math.max(most, (now.cpuMs - since.cpuMs) / Math.max(WINDOW_MS, now.atMs - since.atMs))
    await setTimeout(250)
  }
  return most
}

describe('a crowd of tasks that end their process', { concurrency: isLong ? 12 : 3 }, () => {
  for (const [language, count, processes] of CROWDS) {
    const { needs, setup }: Language = LANGUAGES[language]
    it(`of ${count} in ${language}, with ${processes} process${processes === 1 ? '' : 'es'}, lets other tasks begin, counts no crash for them, and takes little processor time`, {
      skip: skipUnless(...needs),
    }, async () => {
      const spool = spoolDirectory()
      const { ini, ...more } = setup(dirname(spool))
      const startedAt = performance.now()
      const daemon = await startDaemon({
        ...{ spool, ...more },
        ini: { ...ini, 'spooler-processes': processes, 'spooler-quiet': true },
      })
      const startMs = performance.now() - startedAt
      const poison = Array.from({ length: count }, (_, i) => `poison-${i}`)
      for (const n of poison) drop(spool, n, packet({ n, do: 'exit' }))
      const waits = waitsOf(() => [daemon.pid, ...daemon.workers()])
      const delays = monitorEventLoopDelay()
      delays.enable()
      const dropping = dropEachSecond(spool, SECONDS)
      const runs = (n: string) => begunIn(daemon).filter(each => each.n === n).length
      await until('each poison task has run', () => poison.every(runs), 300_000)
      const share = await busiest(daemon, () => !leftIn(spool).some(name => name.startsWith('poison')))
      const dropped = await dropping
      await until('the other tasks have run', () => leftIn(spool).length === 0)
      delays.disable()
      assertServed(begunIn(daemon), dropped, startMs, delays.max / 1e6, waits)
      const dead = await deadOf(spool)
      for (const n of poison) {
        assert.equal(runs(n), 3, `${n} ran ${runs(n)} times`)
        assert.deepEqual([dead.get(n)?.reason, dead.get(n)?.crashes], ['crashes', 3])
      }
      for (const n of dropped.keys()) assert.equal(runs(n), 1, n)
      assert.doesNotMatch(daemon.output, /workers keep failing/)
      assert.ok(share <= SHARE, `${Math.round(share * 100)} % of a processor`)
    })
  }
})

describe('a task that has crashed its process', { concurrency: 3 }, () => {
  /** Makes a task as a process leaves it that began it alone. */
  const begun = (vars: Record<string, string>) => {
    const bytes = packet(vars)
    bytes[MODIFIER2_OFFSET] = STARTED
    return bytes
  }
  const gated = (gate: string) => `
    import { existsSync } from 'node:fs'
    import { setTimeout } from 'node:timers/promises'
    export default async (env, task) => {
      JOURNAL(env.n)
      while (env.do === 'wait' && !existsSync(${JSON.stringify(gate)})) await setTimeout(10)
      return task.SPOOL_OK
    }`

  it('lets all other tasks run first, even later ones and after a restart, and ls says so', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    drop(spool, 'crashed', begun({ n: 'crashed' }))
    drop(spool, 'waits', packet({ n: 'waits', do: 'wait' }))
    const setup = { spool, handler: gated(gate), ini: { 'worker-reload-mercy': 1, 'spooler-ordered': true } }
    const first = await startDaemon(setup)
    await until('the other task runs', () => first.journal().length === 1)
    const isParked = async () => (await spoolSnapshotOf(spool)).tasks.parked.crashed === 1
    await until('the crashed task is parked', isParked)
    const listed = await spoold(['ls', '--json', '--name', 'crashed', spool])
    assert.match(
      listed.stdout,
      /"reason":"crashed","detail":"has crashed its process, and runs when no other task is due"/,
    )
    first.child.kill('SIGTERM')
    assert.equal(await first.code(), 0)
    const second = await startDaemon(setup)
    await until('the other task runs again', () => second.journal().length === 2)
    await until('the crashed task is parked again', isParked)
    for (let i = 0; i < 3; i++) drop(spool, `late-${i}`, packet({ n: `late-${i}` }))
    writeFileSync(gate, '')
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(second.journal(), ['waits', 'waits', 'late-0', 'late-1', 'late-2', 'crashed'])
  })

  it('costs no time if it does not crash again: 40 of them run one after the other', async () => {
    const spool = spoolDirectory()
    const COUNT = 40
    for (let i = 0; i < COUNT; i++) drop(spool, `task-${i}`, begun({ n: `${i}` }))
    const since = performance.now()
    const daemon = await startDaemon({ spool, handler: gated(''), ini: { drain: true }, isUnready: true })
    assert.equal(await daemon.code(), 0, daemon.output)
    const tookMs = performance.now() - since
    assert.equal(new Set(daemon.journal()).size, COUNT)
    assert.ok(tookMs < COUNT * 500 * patience(), `${tookMs} ms`) // a crash of each would take more than a second
  })

  it('runs within about a minute although other tasks are always due', {
    skip: isLong ? false : 'takes a minute (npm run test:long)',
  }, async () => {
    const spool = spoolDirectory()
    drop(spool, 'crashed', begun({ n: 'crashed' }))
    const handler = `
      import { setTimeout } from 'node:timers/promises'
      export default async (env, task) => {
        JOURNAL(env.n)
        if (env.n === 'other') await setTimeout(50)
        return env.n === 'other' ? { retry: 0.001 } : task.SPOOL_OK
      }`
    for (let i = 0; i < 10; i++) drop(spool, `other-${i}`, packet({ n: 'other' }))
    const since = performance.now()
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-quiet': true } })
    await until('the crashed task has run', () => daemon.journal().includes('crashed'), 120_000)
    assert.ok(performance.now() - since > 50_000)
    assert.ok(daemon.journal().length > 500, 'others were always due')
  })
})
