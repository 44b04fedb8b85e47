import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { type Daemon, type DaemonSetup, startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { killQuietly } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const OK = 'export default (env, task) => task.SPOOL_OK\n'

/** Returns a file that is there once the daemon runs; from then on everything fails. */
function gateOf(spool: string): string {
  return join(spool, '..', 'gate')
}

function begin(spool: string): void {
  writeFileSync(gateOf(spool), '')
}

/** Returns a handler module whose database is gone. */
function rejecting(spool: string): string {
  const reject = `if (existsSync(${JSON.stringify(gateOf(spool))})) Promise.reject(new Error('no database'))`
  return `import { existsSync } from 'node:fs'\nsetInterval(() => { ${reject} }, 50)\n${OK}`
}

/** While one task runs, the others wait for its slot. */
const ONE_SLOT = `
import { Tasks } from 'spoold'
export const tasks = new Tasks()
tasks.task('few', { maxConcurrency: 1, maxRetries: 1 }, () => new Promise(resolve => setTimeout(resolve, 60_000)))
${OK}`

interface Storm {
  readonly title: string
  readonly requires?: Parameters<typeof skipUnless>[0]
  /** Matches one line for each process that was tried. */
  readonly tried: RegExp
  setup(spool: string): Omit<DaemonSetup, 'spool'>
}

const SPAWNED = /spawned the uWSGI spooler on dir/g

const STORMS: readonly Storm[] = [
  {
    title: 'a rejection shortly after the import',
    tried: SPAWNED,
    setup: spool => ({ handler: rejecting(spool), ini: { 'spooler-processes': 2 } }),
  },
  {
    title: 'an exit before any task of the process begins',
    tried: SPAWNED,
    setup(spool) {
      for (let i = 0; i < 20; i++) drop(spool, `task-${i}`, packet({ gate: gateOf(spool) }))
      return {
        handler: `
          import { existsSync } from 'node:fs'
          const isOn = () => existsSync(${JSON.stringify(gateOf(spool))})
          import { Socket } from 'node:net'
          const { emit } = Socket.prototype // of what the master gives it
          Socket.prototype.emit = function (name, ...args) {
            if (name === 'data' && isOn()) process.exit(3)
            return emit.call(this, name, ...args)
          }
          export default (env, task) => isOn() ? task.SPOOL_OK : { retry: 0.1 }`,
        ini: { 'spooler-processes': 2 },
      }
    },
  },
  {
    title: 'an interpreter that dies when it is ready',
    requires: 'python3',
    tried: SPAWNED,
    setup(spool) {
      const file = join(spool, '..', 'dies.py')
      writeFileSync(
        file,
        `import os, threading, time, uwsgi
uwsgi.spooler = lambda env: -2
def die():
    while not os.path.exists(${JSON.stringify(gateOf(spool))}): time.sleep(0.02)
    os._exit(3)
threading.Thread(target=die).start()
`,
      )
      return {
        isForeign: true,
        ini: { python: PYTHON, 'spooler-python-import': file, 'spooler-processes': 2 },
      }
    },
  },
  {
    title: 'a lack of memory for another process',
    tried: /cannot fork a process/g,
    setup(spool) {
      const hook = join(spool, '..', 'no-memory.cjs')
      const gate = join(spool, '..', 'no-memory')
      writeFileSync(
        hook,
        `const child = require('node:child_process'), fs = require('node:fs')
const { spawn } = child
child.spawn = (...args) => {
  if (fs.existsSync(${JSON.stringify(gate)})) throw Object.assign(new Error('spawn ENOMEM'), { code: 'ENOMEM' })
  return spawn(...args)
}
require('node:module').syncBuiltinESMExports()
`,
      )
      drop(spool, 'exits', packet({ gate }))
      return {
        handler: `import { writeFileSync } from 'node:fs'
export default env => { writeFileSync(env.gate, ''); process.exit(1) }\n`,
        env: { NODE_OPTIONS: `--require=${hook}` },
      }
    },
  },
]

function countOf(daemon: Daemon, pattern: RegExp): number {
  return [...daemon.output.matchAll(pattern)].length
}

/** Returns how many more there are after so long. The passing of this time is what is tested. */
async function within(ms: number, count: () => number): Promise<number> {
  const before = count()
  await setTimeout(ms)
  return count() - before
}

describe('a storm of processes', () => {
  for (const { title, requires, tried, setup } of STORMS)
    it(`caused by ${title} abates, and a reload and a stop work meanwhile`, {
      skip: requires === undefined ? false : skipUnless(requires),
    }, async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({ spool, ...setup(spool) })
      begin(spool)
      await daemon.waitFor(/next spawn in 0\.\d+ s/)
      const count = () => countOf(daemon, tried)
      const early = count() + (await within(10_000, count))
      assert.ok(early <= 2 + 10, `${early} processes in the first 10 s`)
      if (isLong) {
        await daemon.waitFor(/next spawn in [3-9]\d(?:\.\d+)? s/)
        const late = await within(40_000, count)
        console.log(`${title}: ${early} processes in the first 10 s, ${late} in the next 40 s`)
        assert.equal(late, 1, 'only one process starts in 40 s')
      }
      daemon.child.kill('SIGHUP')
      await daemon.waitFor(/the spoolers are reloaded|the reload is rejected/)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
    })

  it('caused by tasks that exit abates once each has crashed, and a reload and a stop work meanwhile', async () => {
    const spool = spoolDirectory()
    const TASKS = 30
    for (let i = 0; i < TASKS; i++) drop(spool, `task-${i}`, packet({ n: String(i) }))
    const daemon = await startDaemon({
      spool,
      handler: `export default env => { JOURNAL(env.n); process.exit(3) }`,
      ini: { 'spooler-processes': 2, 'spooler-max-crashes': 0 },
    })
    await until('each task has crashed', () => new Set(daemon.journal()).size === TASKS)
    const processes = await within(10_000, () => countOf(daemon, SPAWNED))
    assert.ok(processes <= 2 + 10, `${processes} processes in 10 s`)
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(/the spoolers are reloaded/)
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  // One process is busy with `few`; the other one, if there is one, finds that all others of that name wait for a slot.
  for (const [processes, asked] of [
    [1, 'tasks that no process has seen'],
    [2, 'free slots'],
  ] as const)
    for (const areKilled of [false, true])
      it(`that look for ${asked} does not arise${areKilled ? ', even if each is killed' : ''}`, async () => {
        const spool = spoolDirectory()
        for (let i = 0; i < 200; i++) drop(spool, `few-${i}`, packet({ task: 'few', args: '[]' }))
        const daemon = await startDaemon({
          spool,
          handler: ONE_SLOT,
          ini: { 'spooler-frequency': 1, 'spooler-processes': processes },
        })
        const seen = new Set<number>()
        const since = performance.now()
        while (performance.now() - since < 6000) {
          for (const pid of daemon.asides().filter(pid => !seen.has(pid))) {
            seen.add(pid)
            if (areKilled) killQuietly(pid)
          }
          await setTimeout(20)
        }
        assert.ok(seen.size >= 1 && seen.size <= (areKilled ? 8 : 2), `${seen.size} in 6 s`)
      })

  it('ends with a reload that brings working code', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: rejecting(spool),
    })
    begin(spool)
    await daemon.waitFor(/next spawn in (?:0\.[89]|[1-9])/)
    writeFileSync(daemon.handlerFile, OK)
    drop(spool, 'task', packet({}))
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the spoolers are reloaded')
    await daemon.waitFor(/done with task task/)
    await until('the daemon has one worker', () => daemon.workers().length === 1)
  })
})
