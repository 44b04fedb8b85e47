import assert from 'node:assert/strict'
import { utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { checks, type Ini, present, put, ready, scaledTo, startScaled, stop } from '../helpers/adaptive.js'
import { spoold } from '../helpers/cli.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const OPTIONS = { cheaper: 1, workers: 4, 'cheaper-initial': 2, 'cheaper-algo': './mine.mjs' }
const FAILED = 'the number of processes stays as it is, because its algorithm failed'

/** Makes a spool with an algorithm beside its ini. */
function spoolWith(code: string): string {
  const spool = spoolDirectory()
  write(spool, code)
  return spool
}

let written = 0
function write(spool: string, code: string): void {
  const file = join(dirname(spool), 'mine.mjs')
  writeFileSync(file, code)
  utimesSync(file, ++written, written) // two changes within the resolution of the clock count as two
}

const spawned = ({ output }: Daemon) => output.split('spawned the uWSGI spooler ').length - 1

const wanting = (count: number) =>
  `export default ({ backlog, target }) => ({ target: backlog > 0 ? ${count} : 1, reason: 'mine ' + target })`

describe('a module as algorithm', () => {
  it('grows and shrinks its pool, and is read again by a reload', async () => {
    const spool = spoolWith(wanting(3))
    const daemon = await startScaled(spool, OPTIONS)
    put(spool, 60, { ms: '20' })
    await until('the pool had three processes', () => spawned(daemon) >= 3) // one of the first two may have gone, and they may have run all tasks
    await daemon.waitFor(/\] 3 processes, not [12]: mine [12] \(\S+\/mine\.mjs\)/)
    await until('the tasks have run', () => leftIn(spool).length === 0)
    await until('the pool has one process', () => daemon.workers().length === 1)

    write(spool, wanting(4))
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('reloaded')
    const before = spawned(daemon)
    put(spool, 60, { ms: '20' })
    await until('the pool had four processes', () => spawned(daemon) >= before + 3)
    assert.ok(!daemon.output.includes(FAILED))
    await stop(daemon)
  })

  const broken = [
    ['throws', 'export default () => { throw new Error("no idea") }', 'no idea'],
    [
      'answers nonsense',
      'export default () => ({ target: "two" })',
      'expected { target, state, reason }, got',
    ],
    [
      'is async, and fails',
      'export default async () => { throw new Error("later") }',
      'it has to answer at once',
    ],
    ['is async, and never answers', 'export default () => new Promise(() => {})', 'it has to answer at once'],
  ] as const
  for (const [what, code, said] of broken)
    it(`that ${what} leaves the pool as it is, is reported once, and does not keep tasks from running`, async () => {
      const spool = spoolWith(code)
      const daemon = await startScaled(spool, OPTIONS)
      await daemon.waitFor(said)
      await until('two processes are ready', async () => (await ready(spool)) === 2)
      put(spool, 40, { ms: '10' })
      await until('the tasks have run', () => leftIn(spool).length === 0)
      await until('many checks have passed', checks(10))
      assert.equal(daemon.output.split(FAILED).length, 2)
      assert.deepEqual([await present(spool), scaledTo(daemon)], [2, []])
      await stop(daemon)
    })

  it('that wants to be asked again at once is asked no more often than about every 20 ms', async () => {
    const spool = spoolWith(`
      export default ({ target }) => ({ target, reason: '', askAgainMicros: 0, lines: ['asked at ' + performance.now()] })`)
    const daemon = await startScaled(spool, { ...OPTIONS, 'check-interval': 1 })
    const asked = () => [...daemon.output.matchAll(/asked at (\S+)/g)].map(([, at]) => Number(at))
    const times = await until('asked 30 times', () => (asked().length >= 30 ? asked() : undefined))
    const most = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / 20 + 10
    assert.ok(times.length <= most, `${times.length} times, expected ${most} at most`)
    await stop(daemon)
  })
})

const REFUSED = [
  [
    'is missing',
    undefined,
    /app\.ini:\d+: error: cheaper-algo: expected a module, got \S+mine\.mjs/,
    'CONFIG_INVALID',
  ],
  [
    'cannot be parsed',
    'export default () => {\n return 7 7 }',
    /cheaper-algo: \S+mine\.mjs cannot be parsed: .*:2\n/,
    'UNLOADABLE',
  ],
] as const

describe('an algorithm module that', () => {
  for (const [what, code, checked, refused] of REFUSED)
    it(`${what} is found by check, keeps a daemon from starting, and changes nothing in a reload`, async () => {
      const spool = spoolDirectory()
      const daemon = await startScaled(spool, { ...OPTIONS, 'cheaper-algo': 'spare' })
      const ini = { ...OPTIONS, 'spooler-quiet': true, 'check-interval': 0.05 }
      if (code !== undefined) write(spool, code)
      await refusedBy(spool, ini, refused)
      const { code: exit, stdout } = await spoold(['check', daemon.iniFile], { cwd: dirname(spool) })
      assert.equal(exit, 1)
      assert.match(stdout, checked)

      daemon.child.kill('SIGHUP')
      await daemon.waitFor('the reload is rejected, keeping the current configuration')
      put(spool, 20, { ms: '50' })
      await daemon.waitFor('(spare)')
      await until('the tasks have run', () => leftIn(spool).length === 0)
      await stop(daemon)
    })

  it('never ends loading keeps a daemon from starting', async () => {
    const spool = spoolWith('await new Promise(() => {})\nexport default () => ({})')
    await refusedBy(spool, OPTIONS, 'it is still loading after 10 s')
  })
})

async function refusedBy(spool: string, ini: Ini, said: string): Promise<void> {
  const daemon = await startDaemon({ spool, ini: ini ?? {}, isUnready: true })
  assert.equal(await daemon.code(), 1)
  assert.ok(daemon.output.includes(said), daemon.output)
}
