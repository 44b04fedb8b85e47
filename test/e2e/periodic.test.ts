import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { type Daemon, readJournal, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet, taskName } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const IMPORTS = `import { Tasks, currentTask } from 'spoold'\nexport const tasks = new Tasks()\n`
const tick = (options: string, body = `JOURNAL('tick ' + Date.now())`) =>
  `${IMPORTS}tasks.task('tick', ${options}, async () => { ${body} })`

type Setup = Partial<Parameters<typeof startDaemon>[0]>

const start = (handler: string, setup: Setup = {}) =>
  startDaemon({ spool: spoolDirectory(), handler, ...setup })
const ticks = (daemon: Daemon) => daemon.journal().filter(line => line.startsWith('tick'))
const ticked = (daemon: Daemon, count: number) => until(`${count} ticks`, () => ticks(daemon).length >= count)
const statesIn = (spool: string) => leftIn(join(spool, '.spoold/periodic'))

async function stop(daemon: Daemon): Promise<void> {
  daemon.child.kill('SIGTERM')
  await daemon.exited
}

describe('a periodic task', { concurrency: 3 }, () => {
  it('runs again and again as a named task, once in a period however many processes know it', async () => {
    const daemon = await start(
      tick(
        '{ periodicity: 1 }',
        `const { name, id, args, queue } = currentTask(); JOURNAL('tick ' + JSON.stringify({ name, id, args, queue, at: Date.now() }))`,
      ),
      { ini: { 'spooler-processes': 3 } },
    )
    await ticked(daemon, 4)
    const ran = ticks(daemon).map(line => JSON.parse(line.slice(5)))
    assert.deepEqual([ran[0].name, ran[0].args, ran[0].queue], ['tick', [], 'default'])
    assert.equal(new Set(ran.map(({ id }) => id)).size, ran.length)
    for (const [i, { at }] of ran.slice(1).entries()) assert.ok(at - ran[i].at > 900, `${at - ran[i].at} ms`)
  })

  it('is in the status with the time of its next run', async () => {
    const spool = spoolDirectory()
    await start(`${tick(`{ cron: '0 3 * * *', timeZone: 'Europe/Paris' }`)}`, { spool })
    const found = await until('the time of the next run is known', async () => {
      const { stdout } = await spoold(['status', '--json', spool])
      const [schedule] = JSON.parse(stdout).spools[0].schedules
      return typeof schedule?.nextAtMs === 'number' ? schedule : undefined
    })
    const { stdout } = await spoold(['status', spool])
    assert.match(stdout, /^ +periodic +tick in \d+/m)
    assert.equal(found.schedule.name, 'tick')
    assert.equal(new Date(found.nextAtMs).toLocaleTimeString('fr', { timeZone: 'Europe/Paris' }), '03:00:00')
  })

  it('keeps its period across a restart', async () => {
    const spool = spoolDirectory()
    const first = await start(tick('{ periodicity: 2 }'), { spool })
    await until('the task is known', () => statesIn(spool).length > 0)
    await stop(first)
    const second = await start(tick('{ periodicity: 2 }'), { spool })
    await ticked(second, 2)
    const [one = 0, two = 0] = ticks(second).map(line => Number(line.slice(5)))
    assert.ok(two - one > 1900, `${two - one} ms`)
  })

  it('is not stored by a daemon that drains', async () => {
    const spool = spoolDirectory()
    const first = await start(tick('{ periodicity: 1 }'), { spool })
    await ticked(first, 1)
    await stop(first)
    const before = ticks(first).length
    await until('the task is due', () => Date.now() > Number(ticks(first).at(-1)?.slice(5)) + 1200)
    drop(spool, taskName(), packet({ task: 'slow', args: '[]' }))
    const handler = `${tick('{ periodicity: 1 }')}
      tasks.task('slow', () => new Promise(resolve => setTimeout(resolve, 3000)).then(() => JOURNAL('slow')))`
    const drain = await start(handler, { spool, args: ['--drain'], isUnready: true })
    assert.deepEqual(await drain.exited, { code: 0, signal: null })
    assert.ok(drain.journal().includes('slow'), 'the slow task has ended in time')
    assert.equal(ticks(drain).length, before)
  })

  it('is stored once while the spool is paused, and runs when the pause ends', async () => {
    const spool = spoolDirectory()
    const daemon = await start(tick('{ periodicity: 1, overlap: true }'), { spool })
    await spoold(['pause', spool])
    await daemon.waitFor(/periodic task tick is due, but uwsgi_spoolfile_on_\S+ has not ended/)
    assert.equal(leftIn(spool).length, 1)
    const before = ticks(daemon).length
    await spoold(['resume', spool])
    await ticked(daemon, before + 1)
  })

  it('wakes a cheap spool that has no worker', async () => {
    const daemon = await start(tick('{ periodicity: 2 }'), {
      ini: { 'spooler-cheap': true, 'spooler-idle': 1 },
    })
    await ticked(daemon, 2)
  })

  it('does not overlap with its last run, unless it has overlap: true', async () => {
    const spool = spoolDirectory()
    const release = join(dirname(spool), 'release')
    const body = `JOURNAL('tick')
      while (!existsSync(${JSON.stringify(release)})) await new Promise(resolve => setTimeout(resolve, 20))`
    const imported = (options: string) => `import { existsSync } from 'node:fs'\n${tick(options, body)}`
    const ini = { 'spooler-processes': 3 }
    const [alone, beside] = await Promise.all([
      start(imported('{ periodicity: 1 }'), { spool, ini }),
      start(imported('{ periodicity: 1, overlap: true }'), { ini }),
    ])
    await ticked(beside, 2)
    await alone.waitFor(/periodic task tick is due, but uwsgi_spoolfile_on_\S+ has not ended/)
    assert.equal(ticks(alone).length, 1)
    writeFileSync(release, '')
    await ticked(alone, 2)
  })

  it('that fails is retried as its options say, and is not stored again meanwhile', async () => {
    const spool = spoolDirectory()
    const daemon = await start(
      tick(
        '{ periodicity: 1, maxRetries: 3, retryDelay: 1 }',
        `JOURNAL('tick ' + currentTask().id); if (currentTask().retries < 2) throw new Error('no')`,
      ),
      { spool },
    )
    await ticked(daemon, 3)
    assert.equal(new Set(ticks(daemon).slice(0, 3)).size, 1)
  })

  it('belongs to the spool of its queue', async () => {
    const spool = spoolDirectory()
    const mail = join(dirname(spool), 'mail')
    const daemon = await start(
      `${IMPORTS}tasks.task('tick', { periodicity: 1, queue: 'mail' }, () => JOURNAL('tick'))
      tasks.task('tock', { periodicity: 1, queue: 'nowhere' }, () => JOURNAL('tock'))
      tasks.task('tuck', { periodicity: 1 }, () => JOURNAL('tuck'))`,
      { spool, ini: { spooler: [spool, mail], 'spooler-queue': `mail=${mail}` } },
    )
    await ticked(daemon, 2)
    await until(
      'the task of the default queue has run twice',
      () => daemon.journal().filter(line => line === 'tuck').length >= 2,
    )
    assert.deepEqual([statesIn(spool).length, statesIn(mail).length], [1, 1])
    await daemon.waitFor(/periodic task tock is not scheduled: no spool is known for the queue nowhere/)
  })

  it('with damaged state is reported, and starts anew', async () => {
    const spool = spoolDirectory()
    const first = await start(tick('{ periodicity: 3600 }'), { spool })
    const [file = ''] = await until('the task is known', () =>
      statesIn(spool).length > 0 ? statesIn(spool) : undefined,
    )
    await stop(first)
    const path = join(spool, '.spoold/periodic', file.replace(/\.\d+$/, '.99'))
    symlinkSync('nonsense', path)
    const fsck = await spoold(['fsck', spool])
    assert.match(fsck.stdout, /periodic-broken/)
    const second = await start(tick('{ periodicity: 3600 }'), { spool })
    await second.waitFor(/the state of the periodic task tick is damaged: it starts afresh/)
    await until('the task is known again', () => statesIn(spool).some(name => name.endsWith('.100')))
    await until(
      'fsck agrees',
      async () => !(await spoold(['fsck', spool])).stdout.includes('periodic-broken'),
    )
  })

  it('is logged as not scheduled, to be tried again, while its state cannot be written', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    writeFileSync(join(spool, '.spoold/periodic'), '')
    const daemon = await start(tick('{ periodicity: 1 }'), { spool })
    await daemon.waitFor(
      /periodic tasks cannot be scheduled, and are tried again: .*periodic is not a directory/,
    )
  })
})

describe('several daemons with a periodic task', { concurrency: 2 }, () => {
  it('that are killed all the time store it once in a period, and miss at most one at a kill', async () => {
    const spool = spoolDirectory()
    const handler = tick('{ periodicity: 1 }', `JOURNAL('tick ' + Date.now() + ' ' + currentTask().id)`)
    const daemons = await Promise.all([1, 2, 3].map(() => start(handler, { spool, isGroup: true })))
    const since = Date.now()
    let kills = 0
    while (kills < 15) {
      const i = kills % daemons.length
      const daemon = daemons[i]
      const seen = ticks(daemon as Daemon).length
      await until('the task has run', () => ticks(daemon as Daemon).length > seen)
      process.kill(-(daemon?.child.pid ?? 0), 'SIGKILL')
      await daemon?.exited
      kills++
      daemons[i] = await start(handler, { spool, isGroup: true })
    }
    const ran = readJournal(dirname(spool)).filter(line => line.startsWith('tick'))
    const seconds = (Date.now() - since) / 1000
    assert.ok(ran.length >= seconds * 0.8 - kills, `${ran.length} runs in ${seconds} s with ${kills} kills`)
    // Tasks are stored once a second by the times in their names, but these files are gone, and a run may begin late.
    assert.ok(ran.length <= seconds + 1, `${ran.length} runs in ${seconds} s`)
    assert.equal(new Set(ran.map(line => line.split(' ')[2])).size, ran.length)
  })
})
