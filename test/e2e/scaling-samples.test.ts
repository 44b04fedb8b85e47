import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { present, processesOf, put, scaledTo, startScaled, stop } from '../helpers/adaptive.js'
import { spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** The samples of uWSGI's manual, unchanged. */
const SAMPLES = [
  {
    text: `
# set cheaper algorithm to use, if not set default will be used
cheaper-algo = spare

# minimum number of workers to keep at all times
cheaper = 2

# number of workers to spawn at startup
cheaper-initial = 5

# maximum number of workers that can be spawned
workers = 10

# how many workers should be spawned at a time
cheaper-step = 1
`,
    seen: { algorithm: 'spare', minimum: 2, maximum: 10, initial: 5 },
  },
  {
    text: `
workers = 64          # maximum number of workers

cheaper-algo = spare2
cheaper = 8           # tries to keep 8 idle workers
cheaper-initial = 8   # starts with minimal workers
cheaper-step = 4      # spawn at most 4 workers at once
cheaper-idle = 60     # cheap one worker per minute while idle
`,
    seen: { algorithm: 'spare2', minimum: 8, maximum: 64, initial: 8 },
  },
  {
    text: `
# soft limit will prevent cheaper from spawning new workers
# if workers total rss memory is equal or higher
# we use 128MB soft limit below (values are in bytes)
cheaper-rss-limit-soft = 134217728

# hard limit will force cheaper to cheap single worker
# if workers total rss memory is equal or higher
# we use 160MB hard limit below (values are in bytes)
cheaper-rss-limit-hard = 167772160
`,
    seen: { algorithm: null, minimum: 1, maximum: 1, initial: 1 },
  },
  {
    text: `
cheaper-overload = 10
cheaper-busyness-multiplier = 20
cheaper-busyness-min = 25
cheaper-busyness-penalty = 2
`,
    seen: { algorithm: null, minimum: 1, maximum: 1, initial: 1 },
  },
  {
    text: `
cheaper-overload = 30
`,
    seen: { algorithm: null, minimum: 1, maximum: 1, initial: 1 },
  },
  {
    text: `
cheaper-overload = 10
cheaper-busyness-multiplier = 20
cheaper-busyness-min = 25
`,
    seen: { algorithm: null, minimum: 1, maximum: 1, initial: 1 },
  },
] as const

describe("a sample of uWSGI's manual, with only a spool and a handler added", () => {
  for (const { text, seen } of SAMPLES)
    it(`runs: ${text.replaceAll(/#.*/g, '').trim().replaceAll(/\s+/g, ' ')}`, async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({ spool, text })
      const { size, wanted } = await processesOf(spool)
      const { initial, ...limits } = seen
      assert.deepEqual({ algorithm: size.algorithm, minimum: size.minimum, maximum: size.maximum }, limits)
      assert.ok(wanted <= initial && wanted >= seen.minimum)
      const spawned = () => daemon.output.split('spawned the uWSGI spooler').length - 1
      await until('the first processes have been spawned', () => spawned() >= initial)
      assert.equal(spawned(), initial)
      put(spool, 5)
      await until('the tasks have run', () => leftIn(spool).length === 0)
      await stop(daemon)
    })

  it('gives the busyness algorithm the same settings as in uWSGI', async () => {
    const spool = spoolDirectory()
    const text = `
workers = 4
cheaper = 1
cheaper-algo = busyness
cheaper-busyness-verbose = true
${SAMPLES[3].text}`
    const daemon = await startDaemon({ spool, text })
    await daemon.waitFor(
      '[busyness] settings: min=25%, max=50%, overload=10, multiplier=20, respawn penalty=2',
    )
    await daemon.waitFor('[busyness] backlog alert is set to 33 request(s)')
    await stop(daemon)
  })

  it('gives the limits of memory the same meaning as in uWSGI', async () => {
    const spool = spoolDirectory()
    const text = `
workers = 10
cheaper = 2
cheaper-initial = 5
cheaper-algo = manual
${SAMPLES[2].text}`
    const daemon = await startDaemon({ spool, text })
    await daemon.waitFor(/cheaper hard rss memory limit exceeded, cheap one of \d workers/)
    await until('two processes are left', () => daemon.workers().length === 2)
    await stop(daemon)
  })
})

describe('a configuration that serves requests', () => {
  it('keeps its spooler at one process, and one line says how to have more', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, {
      ...{ 'http-socket': ':0', cheaper: 2, 'cheaper-initial': 5, workers: 10, idle: 1, 'reload-on-rss': 1 },
    })
    const { size, wanted } = await processesOf(spool)
    assert.deepEqual([size.algorithm, size.maximum, wanted, await present(spool)], [null, 1, 1, 1])
    assert.match(
      daemon.output,
      /left to uWSGI, because http-socket \(\S+\) serves requests: check-interval .*, cheaper \S+, cheaper-initial .* for the processes of spools write spooler-check-interval, spooler-cheaper, /,
    )
    assert.equal(daemon.output.split('left to uWSGI').length, 2)
    await stop(daemon)
  })
})

describe('cheap and idle', () => {
  it('start no process before the first task, and keep none after a while without tasks', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { cheap: 'true', idle: 0.5, 'spooler-processes': 2 })
    await until('the spool has no process', () => daemon.workers().length === 0)
    const [name = ''] = put(spool, 1)
    await until('the task has run', () =>
      daemon.journal().some(line => line === `end ${line.split(' ')[1]} ${name}`),
    )
    await until('the spool has no process again', () => daemon.workers().length === 0)
    assert.deepEqual(scaledTo(daemon), [
      [0, 2],
      [2, 0],
    ])
    assert.doesNotMatch(daemon.output, /OOOPS/)
    await stop(daemon)
  })
})

describe('cheaper-algos-list', () => {
  it('prints the algorithms as uWSGI does, whatever else is configured, and exits with 0', async () => {
    for (const flag of ['--cheaper-algos-list', '--cheaper-list', '--spooler-cheaper-algos-list']) {
      const { code, stdout, stderr } = await spoold([flag, '--module', 'nowhere'])
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(
        stdout,
        /^\n\*\*\* uWSGI loaded cheaper algorithms \*\*\*\nspare\nspare2\nbacklog\nbusyness\nmanual\n/,
      )
      assert.match(stdout, /\n--- end of cheaper algorithms list ---\n\n$/)
    }
  })
})
