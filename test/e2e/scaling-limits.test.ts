import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { treeMemoryOf } from '#src/system/process-usage.js'
import {
  assertWhole,
  checks,
  type Ini,
  lines,
  present,
  put,
  ready,
  scaledTo,
  startScaled,
  stop,
} from '../helpers/adaptive.js'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from '../hosts/host-daemon.js'

const MB = 1024 * 1024
const pids = (daemon: Daemon) => lines(daemon, 'start').map(([, pid]) => Number(pid))

/** The handler of the tests in Python: a task keeps `mb` of memory, and then sleeps for `ms`. */
const PYTHON_HANDLER = `
eaten = []
def spooler(env):
    name = env['spooler_task_name'].decode()
    journal('start %d %s' % (os.getpid(), name))
    if b'mb' in env: eaten.append(b'x' * (int(env[b'mb']) * 1024 * 1024))
    if b'ms' in env: time.sleep(int(env[b'ms']) / 1000)
    journal('end %d %s' % (os.getpid(), name))
    return -2
uwsgi.spooler = spooler
`

const QUICK = { 'check-interval': 0.05, 'spooler-frequency': 1000 }
const startPython = (spool: string, ini: Ini) =>
  startHost('python', { spool, handler: PYTHON_HANDLER, ini: { ...QUICK, ...ini } })

const HOSTS = [
  { language: 'JavaScript', start: startScaled, skip: false },
  { language: 'Python', start: startPython, skip: skipUnless('python3') },
] as const

const rssOf = (daemon: Daemon) => daemon.workers().reduce((sum, pid) => sum + treeMemoryOf(pid).rssBytes, 0)

describe('the memory of all processes', () => {
  for (const { language, start, skip } of HOSTS)
    it(`over the hard limit lets idle processes go, one per check, until there is less: ${language}`, {
      skip,
    }, async () => {
      const spool = spoolDirectory()
      const limits = { 'cheaper-rss-limit-soft': 700 * MB, 'cheaper-rss-limit-hard': 800 * MB }
      const many = { cheaper: 1, workers: 4, 'cheaper-initial': 3, 'cheaper-algo': 'manual' } // only the limit acts
      const daemon = await start(spool, { ...many, ...limits })
      await until('three processes are ready', async () => (await ready(spool)) === 3)
      assert.ok(rssOf(daemon) < 700 * MB)
      const names = put(spool, 3, { mb: '250', ms: '1500' })
      await until('each process has a task', () => lines(daemon, 'start').length === 3)
      const eaters = daemon.workers()
      await daemon.waitFor(/cheaper hard rss memory limit exceeded, cheap one of 3 workers/)
      await until('one process is gone', () => daemon.workers().length < 3)
      await until('all tasks have run', () => leftIn(spool).length === 0)
      await until('many checks have passed', checks(20))
      assertWhole(daemon, names)
      assert.ok(daemon.workers().length === 1 || rssOf(daemon) < 800 * MB)
      assert.ok(daemon.workers().every(pid => eaters.includes(pid)))
      for (const [from = 0, to = 0] of scaledTo(daemon)) assert.equal(to, from - 1)
      await daemon.waitFor(/\] 2 processes, not 3: memory is short/)
      assert.doesNotMatch(daemon.output, /OOOPS/)
      await stop(daemon)
    })

  it('over the hard limit keeps the minimum of processes, however much one has on its own', async () => {
    const spool = spoolDirectory()
    const limits = { 'cheaper-rss-limit-soft': MB, 'cheaper-rss-limit-hard': 2 * MB }
    const daemon = await startScaled(spool, {
      cheaper: 2,
      workers: 4,
      'cheaper-initial': 4,
      'cheaper-algo': 'manual',
      ...limits,
    })
    await until('two processes are left', () => daemon.workers().length === 2)
    await until('many checks have passed', checks(20))
    assert.ok(scaledTo(daemon).every(([, to = 0]) => to >= 2))
    assert.equal(daemon.workers().length, 2)
    await stop(daemon)
  })

  it('over the soft limit lets no process be added', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, {
      ...{ cheaper: 1, workers: 4, 'cheaper-algo': 'backlog', 'cheaper-overload': 1 },
      'cheaper-rss-limit-soft': MB,
    })
    put(spool, 60, { ms: '20' })
    await until('the tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(scaledTo(daemon), [])
    await stop(daemon)
  })
})

describe('the memory of one process', () => {
  for (const { language, start, skip } of HOSTS)
    it(`over reload-on-rss replaces the process after the task that took the memory, and not before: ${language}`, {
      skip,
    }, async () => {
      const spool = spoolDirectory()
      const daemon = await start(spool, { 'reload-on-rss': 250, 'min-worker-lifetime': 0 })
      put(spool, 5)
      await until('the tasks have run', () => leftIn(spool).length === 0)
      const [before] = daemon.workers()
      assert.equal(new Set(pids(daemon)).size, 1)
      put(spool, 1, { mb: '300', ms: '1000' })
      await until('the task runs', () => lines(daemon, 'start').length === 6)
      await until('the task has eaten', () => rssOf(daemon) > 300 * MB)
      assert.deepEqual(daemon.workers(), [before])
      await daemon.waitFor(/\] reload-on-rss limit reached \(\d+ >= 262144000\) recycling \.\.\./)
      await until(
        'another process is there',
        () => daemon.workers().length === 1 && daemon.workers()[0] !== before,
      )
      assert.equal(lines(daemon, 'end').length, 6)
      put(spool, 1)
      await until('the next task has run', () => lines(daemon, 'end').length === 7)
      assert.equal(new Set(pids(daemon)).size, 2)
      assert.notEqual(pids(daemon).at(-1), pids(daemon)[0])
      assert.doesNotMatch(daemon.output, /OOOPS|process(es)?, not/)
      await stop(daemon)
    })

  it('over reload-on-rss leaves a process alone that is younger than min-worker-lifetime', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { 'reload-on-rss': 1, 'min-worker-lifetime': 1000 })
    put(spool, 5)
    await until('the tasks have run', () => lines(daemon, 'end').length === 5)
    assert.equal(new Set(pids(daemon)).size, 1)
    assert.doesNotMatch(daemon.output, /recycling/)
    await stop(daemon)
  })

  it('over evil-reload-on-rss kills the process in its task, which counts as crashed', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { 'evil-reload-on-rss': 250, 'spooler-max-crashes': 1 })
    put(spool, 1, { mb: '300', ms: '60000' })
    await daemon.waitFor(/\*\*\* EVIL RELOAD ON WORKER 1 RSS: \d+ \(pid: \d+\) \*\*\*/)
    await daemon.waitFor('its process had more memory than evil-reload-on-rss allows')
    put(spool, 1)
    await until('another process runs the next task', () => lines(daemon, 'end').length === 1)
    assert.equal(new Set(pids(daemon)).size, 2)
    await stop(daemon)
  })

  for (const [option, said] of [
    ['evil-reload-on-as', /\*\*\* EVIL RELOAD ON WORKER 1 ADDRESS SPACE: \d+ \(pid: \d+\) \*\*\*/],
    ['reload-on-as', /reload-on-as limit reached \(\d+ >= \d+\) recycling \.\.\./],
  ] as const)
    it(`counts as address space for ${option}, even if it is not resident`, async () => {
      const spool = spoolDirectory()
      const handler = `
        const kept = []
        export default async ({ gb, ms }, task) => {
          JOURNAL('start ' + process.pid) // before it may be killed
          if (gb) kept.push(Buffer.allocUnsafeSlow(gb * 2 ** 30))
          await new Promise(resolve => setTimeout(resolve, Number(ms)))
          return task.SPOOL_OK
        }`
      const quick = { 'check-interval': 0.05, 'min-worker-lifetime': 0, 'spooler-max-crashes': 1 }
      const daemon = await startDaemon({ spool, handler, ini: quick })
      put(spool, 1, { ms: '0' })
      await until('the task has run', () => leftIn(spool).length === 0)
      const { vszBytes, rssBytes } = treeMemoryOf(daemon.workers()[0] ?? 0)
      assert.ok(rssBytes < vszBytes)
      await stop(daemon)

      const limited = await startDaemon({ spool, handler, ini: { ...quick, [option]: vszBytes / MB + 1024 } })
      put(spool, 5, { ms: '0' })
      await until('the tasks have run', () => leftIn(spool).length === 0)
      assert.doesNotMatch(limited.output, said)
      put(spool, 1, { gb: '2', ms: option === 'reload-on-as' ? '0' : '60000' })
      await limited.waitFor(said)
      put(spool, 1, { ms: '0' })
      await until('another process runs the next task', () => lines(limited, 'start').length === 8)
      assert.equal(new Set(pids(limited)).size, 3) // one of the first daemon, two of this one
      await stop(limited)
    })

  it('includes the memory of the child processes', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, {})
    const [worker = 0] = daemon.workers()
    const alone = treeMemoryOf(worker).rssBytes
    assert.ok(treeMemoryOf(daemon.pid).rssBytes > alone)
    assert.deepEqual(treeMemoryOf(2 ** 22 + 1), { rssBytes: 0, vszBytes: 0 })
    await stop(daemon)
  })
})

describe('max-worker-lifetime', () => {
  it('replaces each process in turn after its task, and keeps their number', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, {
      'spooler-processes': 2,
      'max-worker-lifetime': 1.5,
      'max-worker-lifetime-delta': 2,
      'min-worker-lifetime': 0,
    })
    await until('both processes are ready', async () => (await ready(spool)) === 2)
    const first = daemon.workers()
    put(spool, 1, { ms: '2500' })
    await until('the task runs', () => lines(daemon, 'start').length === 1)
    await daemon.waitFor(/worker 1 lifetime reached, it was running for \d+ second\(s\)/)
    await daemon.waitFor(/worker 2 lifetime reached, it was running for ([3-9]|\d\d) second\(s\)/)
    await until('the task has ended', () => leftIn(spool).length === 0)
    await until('two other processes are there', () => !daemon.workers().some(pid => first.includes(pid)))
    assert.equal(lines(daemon, 'start').length, 1)
    assert.doesNotMatch(daemon.output, /OOOPS|NO MERCY|process(es)?, not/)
    await until('the number of processes is the same', async () => (await present(spool)) === 2)
    await stop(daemon)
  })
})
