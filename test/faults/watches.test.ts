import assert from 'node:assert/strict'
import { mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { type Daemon, startDaemon } from '../helpers/daemon.js'
import { exchangeNames } from '../helpers/exchanger.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { patience, stopwatch, until } from '../helpers/until.js'
import { cpuPercentAwake } from '../helpers/usage.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

/** Runs a command that gets no inotify instance; as the root of a user namespace it may change that again. */
const WITHOUT_INOTIFY = [
  'unshare',
  '-Ur',
  'sh',
  '-c',
  'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"',
  'sh',
]
const FREQUENCY = 1
/** At a thousand tasks a second, some are left after two scans. */
const BACKLOG = 5000
/** In ms: one frequency and a second, and what a busy machine takes. */
const FOUND_MS = FREQUENCY * 1000 + 1000 + 4000

/** Latin-1: 190 bytes in the directory, 350 and more as UTF-8 text in which each odd byte became U+FFFD. */
const LONG_AS_TEXT = Buffer.concat([Buffer.from('uwsgi_spoolfile_on_'), Buffer.alloc(171, 0xfc)])

const pathOf = (directory: string, name: Buffer) => Buffer.concat([Buffer.from(`${directory}/`), name])

async function foundSoon(daemon: Daemon, directory: string, name: string): Promise<void> {
  const droppedAt = performance.now()
  drop(directory, name)
  await until(`${name} has run`, () => daemon.journal().includes(name), FOUND_MS).catch(error => {
    throw new Error(`${error.message}, ${performance.now() - droppedAt} ms; the log is:\n${daemon.output}`)
  })
}

describe('a name that is longer as text than any name may be', () => {
  for (const name of [
    LONG_AS_TEXT,
    Buffer.concat([Buffer.from('.'), LONG_AS_TEXT]), // a name of no task
    Buffer.alloc(91, 0x8e), // Shift-JIS: 273 bytes
  ])
    for (const when of ['before the start', 'while the daemon runs'])
      it(`does not keep other tasks from being found: ${name.length} bytes, there ${when}`, async () => {
        const spool = spoolDirectory()
        mkdirSync(join(spool, '5'))
        const put = () => {
          for (const directory of [spool, join(spool, '5')])
            writeFileSync(pathOf(directory, name), packet({ a: 'b' }))
        }
        if (when === 'before the start') put()
        drop(spool, 'there-before')
        const daemon = await startDaemon({
          spool,
          ini: { 'spooler-frequency': FREQUENCY, 'spooler-ordered': true },
        })
        await until(
          'the task of before the start has run',
          () => daemon.journal().includes('there-before'),
          FOUND_MS,
        )
        if (when !== 'before the start') put()
        await foundSoon(daemon, spool, 'beside')
        await foundSoon(daemon, join(spool, '5'), 'in-a-priority')
        mkdirSync(join(spool, '7'))
        await foundSoon(daemon, join(spool, '7'), 'in-a-new-priority')
        assert.doesNotMatch(daemon.output, /no file-system events/)
        for (const directory of [spool, join(spool, '5')]) rmSync(pathOf(directory, name), { force: true })
        await foundSoon(daemon, spool, 'after-it-was-removed')
      })

  it('does not keep --drain from ending', async () => {
    const spool = spoolDirectory()
    writeFileSync(pathOf(spool, LONG_AS_TEXT), packet({ a: 'b' }))
    const daemon = await startDaemon({ spool, args: ['--drain'], isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.equal(daemon.journal().length, 1)
  })
})

describe('where inotify is refused', { skip: skipUnless('root') }, () => {
  for (const { waiting, most } of [
    { waiting: 0, most: 1 },
    { waiting: 200_000, most: 1 },
  ])
    it(`a daemon with ${waiting} waiting files idles, and finds new tasks`, async () => {
      const spool = spoolDirectory()
      mkdirSync(join(spool, '5'))
      const bytes = packet({ a: 'b' })
      const later = Date.now() / 1000 + 86_400
      for (let i = 0; i < waiting; i++) {
        const path = join(spool, `uwsgi_spoolfile_on_${i}`)
        writeFileSync(path, bytes)
        utimesSync(path, later, later)
      }
      const daemon = await startDaemon({
        spool,
        under: WITHOUT_INOTIFY,
        ini: { 'spooler-frequency': 5, 'spooler-ordered': true, 'spooler-quiet': true },
      })
      assert.match(
        daemon.output,
        /no file-system events (?:from 5\/ )?\(EMFILE.*new tasks are found every 5 s/,
      )
      const idles = async () => (await cpuPercentAwake(daemon, 6000)) <= most
      await until(
        `all files were looked at, and the daemon takes at most ${most} % of a core`,
        idles,
        240_000,
      )
      drop(spool, '5/here')
      await until('the new task has run', () => daemon.journal().includes('here'), 11_000)
      assert.equal(daemon.output.split('no file-system events').length, 2, daemon.output)
    })

  it('an urgent task runs next after a scan, and in time without one', async () => {
    const spool = spoolDirectory()
    for (const directory of ['2', '5']) mkdirSync(join(spool, directory))
    const bytes = packet({ a: 'b' })
    for (let i = 0; i < BACKLOG; i++) writeFileSync(join(spool, '5', `uwsgi_spoolfile_on_${i}`), bytes)
    const daemon = await startDaemon({
      spool,
      handler: `const nap = new Int32Array(new SharedArrayBuffer(4))
        export default (env, task) => { JOURNAL(task.name); Atomics.wait(nap, 0, 0, 1); return task.SPOOL_OK }`,
      under: WITHOUT_INOTIFY,
      ini: { 'spooler-frequency': FREQUENCY, 'spooler-ordered': true, 'spooler-quiet': true },
    })
    await until('some tasks have run', () => daemon.journal().length > 100)
    for (const [directory, isAsked] of [
      ['2', true],
      ['1', true],
      ['2', false],
      ['0', false],
    ] as const) {
      const name = `urgent-${directory}-${isAsked}`
      mkdirSync(join(spool, directory), { recursive: true })
      const before = daemon.journal().length
      if (!isAsked) await foundSoon(daemon, join(spool, directory), name)
      else {
        drop(join(spool, directory), name)
        daemon.child.kill('SIGUSR1')
        await until(`${name} has run`, () => daemon.journal().includes(name), FOUND_MS)
        const others = daemon.journal().indexOf(name) - before
        assert.ok(others < 300, `${others} others ran before ${name}`)
      }
    }
    assert.ok(leftIn(spool).length > 0, 'the others still run')
    assert.match(daemon.output, /no file-system events/)
    daemon.child.kill('SIGQUIT')
    assert.equal(await daemon.code(), 0)
  })

  it('inotify is asked for again, and an event says when it is back', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const program = `
      import { writeFileSync } from 'node:fs'
      import { Emitter } from '#src/base/events/emitter.js'
      import { Scanner } from '#src/engines/spool/index/scanner.js'
      import { TaskIndex } from '#src/engines/spool/index/task-index.js'
      const frequencyMs = 1_000_000
      const rules = { ordered: true, strictNames: false }
      const index = new TaskIndex({ order: 'name', frequencyMs })
      const events = new Emitter()
      events.on('watch-lost', ({ prefix, error }) => {
        console.log('lost ' + JSON.stringify(prefix) + ' ' + error)
        writeFileSync('/proc/sys/user/max_inotify_instances', '9')
      })
      events.on('watch-back', () => {
        console.log('back')
        writeFileSync(process.argv[1] + '/5/new', '')
      })
      const options = { spool: process.argv[1], rules, frequencyMs, watch: 'auto', refusedMs: 300 }
      const scanner = new Scanner(options, index, events, () => {
        for (const ref of index.take(9)) console.log('found ' + ref)
      })
      await scanner.start()`
    const child = new TestProcess(
      'unshare',
      [...WITHOUT_INOTIFY.slice(1), process.execPath, '--input-type=module', '-e', program, spool],
      { cwd: ROOT },
    )
    await child.waitFor('found 5/new')
    assert.match(child.output, /^lost "" EMFILE.*\nback\nfound 5\/new\n$/)
  })

  it('the file of touch-reload is polled', async () => {
    const spool = spoolDirectory()
    const touched = join(spool, '..', 'touched')
    writeFileSync(touched, '')
    const daemon = await startDaemon({ spool, under: WITHOUT_INOTIFY, ini: { 'touch-reload': touched } })
    await until('a touch is noticed', () => {
      utimesSync(touched, new Date(), new Date())
      return daemon.output.includes('has been touched')
    })
  })
})

describe('names that are exchanged without rest', { skip: skipUnless('python3') }, () => {
  it('keep a daemon neither from running a task nor from stopping', async () => {
    const spool = spoolDirectory()
    const pairs = ['5', '6', '7'].map(name => [join(spool, name), join(spool, `${name}0`)] as const)
    for (const path of pairs.flat()) mkdirSync(path)
    const daemon = await startDaemon({ spool, ini: { 'spooler-frequency': 1, 'spooler-ordered': true } })
    await Promise.all(pairs.map(pair => exchangeNames(process.getuid?.() ?? 0, [pair], 0)))
    await daemon.waitFor(/no file-system events .*names change there faster than they can be looked at/)
    drop(spool, 'beside')
    await until('the task has run', () => daemon.journal().includes('beside'))
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })
})

/** A pass is a `stat` of each priority: 6 µs on an idle machine, several times that on a busy one. */
const PASS_MS = 20_000 * 0.006
const BUSY = 4

describe('20,000 priorities', () => {
  for (const frequency of [1, 30])
    it(`cost little, and a new task in any of them is found in time: spooler-frequency ${frequency}`, async () => {
      const spool = spoolDirectory()
      for (let i = 0; i < 20_000; i++) mkdirSync(join(spool, String(i)))
      drop(spool, '7/there-before')
      const ini = { 'spooler-frequency': frequency, 'spooler-ordered': true }
      const most = 1 + 100 * BUSY * (PASS_MS / (frequency * 1000))
      const daemon = await startDaemon({ spool, ini })
      await until('the task of before the start has run', () => daemon.journal().includes('there-before'))
      await until(
        'the first scans are over',
        async () => (await cpuPercentAwake(daemon, 1000)) < 2 * most,
        60_000,
      )
      drop(spool, '3/watched')
      await until('the urgent task has run', () => daemon.journal().includes('watched'), FOUND_MS)
      const sinceDropped = stopwatch(daemon.pid)
      drop(spool, '19999/unwatched')
      const inTimeMs = (frequency * 1000 + 1000 + BUSY * PASS_MS) * patience()
      await until(
        'the task of an unwatched priority has run',
        () => daemon.journal().includes('unwatched'),
        3 * inTimeMs,
      )
      const waitedMs = sinceDropped()
      assert.ok(waitedMs <= inTimeMs, `found after ${waitedMs} ms`)
      // The sweep, ten seconds after the start and then every ten minutes, is not counted.
      const seen: number[] = []
      const isCheap = async () => {
        seen.push(await cpuPercentAwake(daemon, 12_000))
        return (seen.at(-1) ?? 0) < most
      }
      await until('the daemon takes little of a core', isCheap, 60_000).catch(() =>
        assert.fail(`${seen} % of a core, at most ${most}`),
      )
    })
})
