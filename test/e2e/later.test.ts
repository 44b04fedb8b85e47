import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { spoolSnapshotOf } from '../helpers/control.js'
import { readJournal, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Journals the start of a task, and blocks its process until the task's gate is there. */
const HANDLER = `
  import { existsSync } from 'node:fs'
  const sleep = ms => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  export default (env, task) => {
    JOURNAL(task.name)
    if (env.gate !== undefined) while (!existsSync(env.gate)) sleep(5)
    return task.SPOOL_OK
  }`

const COUNT = 1500

/** Drops tasks that are years old by their names, and due tomorrow: half by mtime, half by `at` in the packet. */
function dropLater(spool: string, from: number): void {
  const tomorrow = Math.ceil(Date.now() / 1000) + 86_400
  for (let i = from; i < from + COUNT; i++) {
    const name = `uwsgi_spoolfile_on_host_1_${i}_1_1700000000_1`
    if (i % 2 === 0) drop(spool, name, packet({}), tomorrow)
    else drop(spool, name, packet({ at: String(tomorrow) }))
  }
}

/** Waits until so many tasks are known to be for later, and checks that none is called due meanwhile. */
async function neverDue(spool: string, later: number): Promise<void> {
  await until(`${later} are known to be for later`, async () => {
    const { tasks } = await spoolSnapshotOf(spool)
    assert.deepEqual([tasks.due, tasks.oldestDueMs], [0, null])
    return tasks.later === later && tasks.unseen === 0
  })
}

const STATES = ['free', 'busy', 'paused', 'gone'] as const

describe('a task whose time has not come', () => {
  for (const state of STATES)
    it(`is never counted as due, after a start or a scan, while the workers are ${state}`, async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      dropLater(spool, 0)
      if (state === 'paused') assert.equal((await inProcess(['pause', spool])).code, 0)
      if (state === 'busy') drop(spool, '0-block', packet({ gate }))
      const daemon = await startDaemon({
        spool,
        handler: HANDLER,
        ini: {
          'spooler-frequency': 1,
          'spooler-ordered': true,
          ...(state === 'gone' ? { 'spooler-cheap': true, idle: 1 } : {}),
        },
      })
      if (state === 'busy') await until('one worker is busy', () => readJournal(dirname(spool)).length === 1)
      await neverDue(spool, COUNT)
      if (state === 'gone') await until('the spool has no worker', () => daemon.workers().length === 0)
      dropLater(spool, COUNT)
      daemon.child.kill('SIGUSR1') // scans
      await neverDue(spool, 2 * COUNT)
      const limits = ['--max-due', '0', '--max-age', '1s']
      const { code, stdout } = await inProcess(['status', ...limits, spool])
      assert.equal(code, 0, stdout)
      writeFileSync(gate, '')
      assert.deepEqual(daemon.journal(), state === 'busy' ? ['0-block'] : [])
    })
})

describe('a task for later that is removed', () => {
  it('is no longer counted as the next task to come due', async () => {
    const spool = spoolDirectory()
    const soon = Math.ceil(Date.now() / 1000) + 3600
    const [first, last] = [soon, soon + 3600].map(at => drop(spool, undefined, packet({}), at))
    await startDaemon({ spool })
    const nextIs = (seconds: number | null) =>
      until(
        `the next is due at ${seconds}`,
        async () => {
          const { nextDueMs } = (await spoolSnapshotOf(spool)).tasks
          return nextDueMs === (seconds === null ? null : seconds * 1000)
        },
        10_000,
      )
    await nextIs(soon)
    rmSync(first ?? '')
    await nextIs(soon + 3600)
    rmSync(last ?? '')
    await nextIs(null)
  })
})

const STRACE = 'strace -f -qq --seccomp-bpf -s 4096 -e signal=none -e trace=openat -o'.split(' ')

describe('a crowd of tasks for later', { skip: skipUnless('strace') }, () => {
  it('is recognised by the mtime of each file, almost none of which is opened, while a due task among them runs', async () => {
    const spool = spoolDirectory()
    const log = join(dirname(spool), 'strace')
    const tomorrow = Math.ceil(Date.now() / 1000) + 86_400
    const crowd = Array.from({ length: 1000 }, (_, i) => `crowd-${i}`)
    for (const name of crowd) drop(spool, name, packet({}), tomorrow)
    drop(spool, 'due', packet({}))
    const daemon = await startDaemon({ spool, handler: HANDLER, under: [...STRACE, log] })
    await until('all tasks are looked at', async () => {
      const { later, unseen } = (await spoolSnapshotOf(spool)).tasks
      return later === crowd.length && unseen === 0
    })
    await until('the due task has run', () => leftIn(spool).length === crowd.length)
    assert.deepEqual(daemon.journal(), ['due'])
    const opened = readFileSync(log, 'utf8').split('\n')
    assert.ok(opened.some(line => line.includes('"due"')))
    const inVain = opened.filter(line => line.includes('"crowd-'))
    assert.ok(inVain.length < 20, `${inVain.length} were opened`)
  })
})
