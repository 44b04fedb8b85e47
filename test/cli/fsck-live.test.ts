import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess, spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import {
  configure,
  foundAndRepaired,
  fsck,
  giveTo,
  HANGS,
  isClean,
  killAll,
  LONG_AGO,
  NAME,
  NOBODY,
  type ReportedFinding,
  runAndKill,
  summary,
} from '../helpers/fsck.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

describe('spoold fsck, on runs that did not end', () => {
  it('counts a crash, as the next claim would', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, packet({ name: NAME }), LONG_AGO)
    await runAndKill(spool, HANGS)
    assert.ok(((readFileSync(path)[3] ?? 0) & 0x80) !== 0)
    const [finding] = await foundAndRepaired(spool, [`run-open ${NAME}`])
    assert.match(finding?.detail ?? '', /^a crash was counted; it may run from 20/)
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL('attempt ' + task.attempt); return task.SPOOL_OK }`,
    })
    await until('the task has run', () => leftIn(spool).length === 0)
    assert.equal(daemon.journal().at(-1), 'attempt 2') // the suspected one counts, too
  })

  it('buries a task that is delivered at most once, as the next claim would', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    await runAndKill(spool, HANGS, { 'spooler-delivery': 'at-most-once' })
    const [finding] = await foundAndRepaired(spool, [`run-open ${NAME}`])
    assert.match(finding?.detail ?? '', /^it is buried: its process died; it may have done its work/)
    assert.deepEqual(leftIn(spool), [])
    assert.equal(
      JSON.parse(readFileSync(join(spool, `.spoold/dead/${NAME}.json`), 'utf8')).reason,
      'outcome-unknown',
    )
  })

  it('keeps to the limits of the configuration', async () => {
    const spool = spoolDirectory()
    readFileSync(drop(spool, NAME, packet({ name: NAME }), LONG_AGO))
    await runAndKill(spool, HANGS)
    const ini = configure(spool, { 'spooler-max-crashes': 1 })
    const [finding] = await foundAndRepaired(spool, [`run-open ${NAME}`], ...ini)
    assert.match(finding?.detail ?? '', /spooler-max-crashes/)
  })

  it('leaves to a daemon the task that it runs', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const daemon = await startDaemon({ spool, handler: HANGS, ini: { 'spooler-delivery': 'at-most-once' } })
    await until('the task runs', () => daemon.journal().length > 0)
    const { code, findings } = await fsck('--repair', spool)
    assert.equal(code, 0)
    assert.deepEqual([...new Set(summary(findings))], ['note in-use '])
    assert.ok(findings.some(({ meaning }) => meaning.startsWith(`pid ${daemon.pid} (`)))
    assert.deepEqual(leftIn(spool), [NAME])
  })

  it('leaves alone a task file that any program has locked', { skip: skipUnless('python3') }, async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, Buffer.from([17, 0, 0, 0x80]), LONG_AGO)
    const hold = `import fcntl, sys, time
f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)`
    const holder = new TestProcess(PYTHON, ['-c', hold, path])
    await holder.waitFor('held')
    await isClean(spool)
    await isClean(spool, '--repair')
    holder.child.kill('SIGKILL')
    await holder.exited
    await foundAndRepaired(spool, [`run-open ${NAME}`])
  })

  it('leaves alone a task that a process holds by lease, until the lease is stale', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const ini = { 'spooler-delivery': 'at-most-once', 'spooler-lock': 'lockfile' }
    await runAndKill(spool, HANGS, ini)
    await isClean(spool) // the holder is not yet known to be dead
    const locks = join(spool, '.spoold/locks')
    const leases = readdirSync(locks)
    assert.ok(leases.length > 0)
    for (const name of leases) utimesSync(join(locks, name), LONG_AGO, LONG_AGO)
    await foundAndRepaired(spool, [
      ...leases.map(name => `lease-stale .spoold/locks/${name}`),
      `run-open ${NAME}`,
    ])
    assert.deepEqual(readdirSync(locks), [])
  })

  it('finishes a removal and a burial that have failed', { skip: skipUnless('root') }, async () => {
    const spool = spoolDirectory()
    giveTo(spool, 0)
    chmodSync(spool, 0o777)
    for (const [name, vars] of Object.entries({ done: {}, dead: { bury: '1' } }))
      chownSync(drop(spool, name, packet(vars)), NOBODY, NOBODY)
    const daemon = await startDaemon({
      spool,
      handler: `
        import { existsSync } from 'node:fs'
        import { setTimeout } from 'node:timers/promises'
        export default async (env, task) => {
          JOURNAL(task.name)
          while (!existsSync(${JSON.stringify(join(dirname(spool), 'go'))})) await setTimeout(5)
          return env.bury ? { bury: 'asked for' } : task.SPOOL_OK
        }`,
      ini: { uid: NOBODY, gid: NOBODY, 'spooler-concurrency': 2 },
    })
    await until('both tasks run', () => daemon.journal().length === 2)
    chmodSync(spool, 0o755) // nothing can be removed from it any more
    writeFileSync(join(dirname(spool), 'go'), '')
    await daemon.waitFor('cannot be removed')
    await daemon.waitFor('is to be buried, but cannot be')
    const { stdout: listed } = await spoold(['ls', spool])
    assert.match(listed, / done +it has run to SPOOL_OK, and could not be removed/)
    assert.match(listed, / dead +it is to be buried, and could not be/)
    const { stdout: told } = await spoold(['status', spool])
    assert.match(told, /since start .*2 not settled/)
    await killAll(daemon)
    chmodSync(spool, 0o777)
    utimesSync(join(spool, 'dead'), LONG_AGO, LONG_AGO)
    await foundAndRepaired(
      spool,
      ['done-left done', 'burial-open dead'],
      ...configure(spool, { uid: NOBODY, gid: NOBODY }),
    )
    assert.deepEqual(leftIn(spool), [])
    const { uid } = statSync(join(spool, '.spoold/dead/dead.json'))
    assert.equal(uid, NOBODY, 'new files belong to the user of the daemon')
  })

  it('reports that no run can be settled when nobody can write to the spool, as ls and show do', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const disk = smallDisk('mode=755')
    const spool = join(disk, 'spool')
    mkdirSync(spool, { mode: 0o700 })
    const file = drop(spool, NAME)
    execFileSync('mount', ['-o', 'remount,ro', disk])
    assert.match((await inProcess(['ls', spool])).stdout, /it cannot be claimed: EROFS/)
    assert.match((await inProcess(['show', file])).stdout, /not settled: it cannot be claimed: EROFS/)
    const { stdout, code } = await inProcess(['fsck', spool])
    assert.match(
      stdout,
      /found rights: nobody can write to it, so no run can be settled: EROFS: read-only file system;/,
    )
    assert.equal(code, 1)
  })
})

describe('spoold fsck --repair beside a daemon under load', () => {
  it('loses no task, and repairs nothing that the daemon uses', async () => {
    const spool = spoolDirectory()
    const tasks = 1500
    for (let n = 0; n < tasks; n++)
      drop(spool, `task-${n}`, packet({ n: String(n), ...(n % 500 === 7 ? { kill: '1' } : {}) }))
    const daemon = await startDaemon({
      spool,
      handler: `
        import { setTimeout } from 'node:timers/promises'
        export default async (env, task) => {
          if (env.kill && task.attempt < 3) process.kill(process.pid, 'SIGKILL')
          if (task.attempt === 1 && env.n % 2) return { retry: '200ms' }
          if (env.n % 100 === 3) return { bury: 'asked for' }
          await setTimeout(2)
          JOURNAL(env.n)
          return task.SPOOL_OK
        }`,
      ini: {
        'spooler-processes': 2,
        'spooler-concurrency': 4,
        'spooler-frequency': 1,
        'spooler-quiet': true,
      },
    })
    const findings: ReportedFinding[] = []
    let runs = 0
    const isOver = () => leftIn(spool).length === 0
    for (; !isOver() && runs < 40; runs++)
      findings.push(...(await fsck(spool, ...(runs % 2 === 0 ? ['--repair'] : []))).findings)
    await until('all tasks have run', isOver, 60_000)
    assert.ok(runs > 3, `only ${runs} runs`)
    assert.deepEqual([...new Set(summary(findings))], ['note in-use '])
    const done = new Set(daemon.journal())
    const buried = readdirSync(join(spool, '.spoold/dead')).filter(name => !name.endsWith('.json'))
    assert.equal(done.size + buried.length, tasks)
    await killAll(daemon)
    await isClean(spool)
  })
})
