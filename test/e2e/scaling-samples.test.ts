import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { present, processesOf, put, ready, scaledTo, startScaled, stop } from '../helpers/adaptive.js'
import { spoold } from '../helpers/cli.js'
import { leftIn } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** The samples of uWSGI's manual as they stand, to which a spool and a handler are added. */
const SAMPLES = [
  {
    ini: { 'cheaper-algo': 'spare', cheaper: 2, 'cheaper-initial': 5, workers: 10, 'cheaper-step': 1 },
    initial: 5,
    range: [2, 10],
  },
  {
    ini: {
      ...{ cheaper: 2, 'cheaper-initial': 3, workers: 10 },
      'cheaper-rss-limit-soft': 134217728,
      'cheaper-rss-limit-hard': 167772160,
    },
    initial: 3,
    range: [2, 10],
  },
  {
    ini: {
      ...{ workers: 64, 'cheaper-algo': 'spare2', cheaper: 8, 'cheaper-initial': 8 },
      ...{ 'cheaper-step': 4, 'cheaper-idle': 60 },
    },
    initial: 8,
    range: [8, 64],
  },
  {
    ini: {
      ...{ workers: 4, 'cheaper-algo': 'busyness', cheaper: 1, 'cheaper-overload': 10 },
      ...{ 'cheaper-busyness-multiplier': 20, 'cheaper-busyness-min': 25, 'cheaper-busyness-penalty': 2 },
      ...{ 'cheaper-busyness-verbose': 'true' },
    },
    initial: 1,
    range: [1, 4],
  },
] as const

describe("a sample of uWSGI's manual, with only a spool and a handler added", () => {
  for (const { ini, initial, range } of SAMPLES)
    it(JSON.stringify(ini), async () => {
      const spool = spoolDirectory()
      const daemon = await startScaled(spool, { ...ini, 'check-interval': 1 })
      const { size, wanted } = await processesOf(spool)
      assert.deepEqual([size.minimum, size.maximum], range)
      assert.ok(wanted <= initial && wanted >= range[0])
      put(spool, 5)
      await until('the tasks have run', () => leftIn(spool).length === 0)
      if ('cheaper-rss-limit-soft' in ini) await daemon.waitFor('cheaper hard rss memory limit exceeded')
      else await until('those of the start are ready', async () => (await ready(spool)) === initial)
      if (size.algorithm === 'busyness')
        await daemon.waitFor('[busyness] settings: min=25%, max=50%, overload=10')
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
  it('start no process before the first task, and keep none when there was none for a while', async () => {
    const spool = spoolDirectory()
    const daemon = await startScaled(spool, { cheap: 'true', idle: 0.5, 'spooler-processes': 2 })
    await until('there is none', () => daemon.children().length === 0)
    const [name = ''] = put(spool, 1)
    await until('it has run', () =>
      daemon.journal().some(line => line === `end ${line.split(' ')[1]} ${name}`),
    )
    await until('there is none again', () => daemon.children().length === 0)
    assert.deepEqual(scaledTo(daemon), [
      [0, 2],
      [2, 0],
    ])
    assert.doesNotMatch(daemon.output, /OOOPS/)
    await stop(daemon)
  })
})

describe('cheaper-algos-list', () => {
  it('prints the algorithms as uWSGI does, whatever else is configured, and exits 0', async () => {
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
