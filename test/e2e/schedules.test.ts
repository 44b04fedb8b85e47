import assert from 'node:assert/strict'
import { appendFileSync, chmodSync, mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { clockBeforeMinute } from '../helpers/clock.js'
import { type Daemon, writeIni } from '../helpers/daemon.js'
import { drop, packet, taskName } from '../helpers/files.js'
import { childrenOf } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { journaled, withSignals } from '../helpers/signals.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const COUNT = `registerSignal(1, 'spooler', () => JOURNAL('1 ' + Date.now()))
registerSignal(2, 'spooler', () => JOURNAL('2'))`

/** The wall clock and the clock of timers, which are compared, differ by up to this. */
const CLOCKS_DIFFER_MS = 20

/** A timer of two seconds, whose firing ends the wait. */
const SENTINEL = `spoold.addTimer(2, 2)`

describe('a timer that code adds', { concurrency: 3 }, () => {
  it('fires again and again, once each time however many processes add it', async () => {
    const daemon = await withSignals(`${COUNT}\n${SENTINEL}\nspoold.addRbTimer(1, 0.5, 4)`, {
      ini: { 'spooler-processes': 3 },
    })
    await journaled(daemon, /^2/, 1)
    assert.equal((await journaled(daemon, /^1/, 4)).length, 4)
  })

  it('may have milliseconds, and never fires earlier than they say', async () => {
    const daemon = await withSignals(`${COUNT}\nJOURNAL('0 ' + Date.now())\nspoold.addMsTimer(1, 100)`)
    const times = (await journaled(daemon, /^[01]/, 21)).map(line => Number(line.slice(2)))
    for (const [i, time] of times.entries()) {
      const sinceMs = time - (times[0] ?? 0)
      assert.ok(sinceMs > i * 100 - CLOCKS_DIFFER_MS, `${i} times 100 ms took ${sinceMs} ms`)
    }
  })

  it('that is shorter than its handler does not run the handler twice at once', async () => {
    const daemon = await withSignals(
      `registerSignal(1, 'spooler', async () => {
        JOURNAL('start')
        await new Promise(resolve => setTimeout(resolve, 60))
        JOURNAL('end')
      })
      spoold.addMsTimer(1, 10)`,
      { ini: { 'spooler-processes': 3 } },
    )
    const lines = await journaled(daemon, /./, 12)
    for (const [i, line] of lines.entries()) assert.equal(line, i % 2 === 0 ? 'start' : 'end')
  })

  it('that fires while its handler runs waits once, however often it fires', async () => {
    const spool = spoolDirectory()
    const release = join(dirname(spool), 'release')
    const daemon = await withSignals(
      `registerSignal(1, 'spooler', () => { JOURNAL('1'); return there(${JSON.stringify(release)}) })
      registerSignal(2, 'spooler', () => JOURNAL('2'))
      spoold.addRbTimer(1, 0.02, 5)
      spoold.addTimer(2, 1)`,
      { spool, ini: { 'spooler-processes': 2 } },
    )
    await journaled(daemon, /2/, 3) // by now the first timer has fired five times, even where each firing is a second late
    writeFileSync(release, '')
    await journaled(daemon, /2/, 5)
    assert.deepEqual(
      daemon.journal().filter(line => line === '1'),
      ['1', '1'],
    )
  })

  it('may be added by a handler, and again each time it has ended', async () => {
    const daemon = await withSignals(`
      registerSignal(1, 'spooler', () => { JOURNAL('armed'); spoold.addRbTimer(2, 0.05, 1) })
      registerSignal(2, 'spooler', () => JOURNAL('2'))
      spoold.addRbTimer(1, 1, 3)`)
    await journaled(daemon, /2/, 3)
    assert.deepEqual(daemon.journal(), Array(3).fill(['armed', '2']).flat())
  })

  it('that has ended does not begin again in a process that replaces another', async () => {
    const daemon = await withSignals(`${COUNT}\n${SENTINEL}\nspoold.addRbTimer(1, 0.1, 1)`)
    await journaled(daemon, /^1/, 1)
    const [worker = 0] = daemon.workers()
    process.kill(worker, 'SIGKILL')
    await journaled(daemon, /^2/, 1)
    assert.equal(daemon.journal().filter(line => line.startsWith('1')).length, 1)
  })
})

/** Returns the seconds of the wall clock in which the first signal was handled. */
const firedSeconds = (daemon: Daemon) =>
  daemon
    .journal()
    .filter(line => line.startsWith('1 '))
    .map(line => Math.floor(Number(line.slice(2)) / 1000))

describe('a cron schedule that code adds', { concurrency: 3 }, () => {
  it('fires at most once in a second, in order, and in four seconds in a row', async () => {
    const daemon = await withSignals(`${COUNT}\nspoold.addCron(1, '* * * * * *', { zone: 'Asia/Tokyo' })`, {
      ini: { 'spooler-processes': 2 },
    })
    // A machine that stands still for a second may miss one. Four in a row come soon, and no second comes twice.
    const isInARow = (seconds: readonly number[]) =>
      seconds.every((second, i) => second === (seconds[0] ?? 0) + i)
    const seconds = await until('four seconds in a row have fired', () => {
      const all = firedSeconds(daemon)
      return all.length >= 4 && all.some((_, i) => i >= 3 && isInARow(all.slice(i - 3, i + 1)))
        ? all
        : undefined
    })
    for (const [i, second] of seconds.entries())
      if (i > 0) assert.ok(second > (seconds[i - 1] ?? 0), `${seconds}`)
    await daemon.waitFor(/\d\d - \[uwsgi-cron\] routing signal 1$/m)
  })

  it('takes five numbers as uWSGI does', async () => {
    const { env } = clockBeforeMinute(10)
    const daemon = await withSignals(
      `${COUNT}\nJOURNAL('0 ' + Date.now())\nspoold.addCron(1, -1, -1, -1, -1, -1)`,
      { env: { ...env, TZ: 'Europe/Berlin' } },
    )
    const [began = 0, first = 0] = (await journaled(daemon, /^[01]/, 2, 70_000)).map(line =>
      Number(line.slice(2)),
    )
    assert.equal(Math.floor(first / 60_000), Math.floor(began / 60_000) + 1, 'in the next minute')
    await daemon.waitFor(/:\d\d:00 \d{4} - \[uwsgi-cron\] routing signal 1$/m)
  })
})

describe('a file monitor', { concurrency: 3 }, () => {
  /** Changes of the watched file; each is made once the signal of the one before has come. */
  const CHANGES: Readonly<Record<string, (path: string) => void>> = {
    'written to': path => appendFileSync(path, 'x'),
    touched: path => utimesSync(path, new Date(), new Date()),
    'given another mode': path => chmodSync(path, 0o600),
    removed: path => rmSync(path),
    'made again': path => writeFileSync(path, ''),
    'replaced by another': path => {
      writeFileSync(`${path}.new`, 'y')
      renameSync(`${path}.new`, path)
    },
  }

  it('that code adds fires for whatever happens to its file', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'watched')
    writeFileSync(path, '')
    const daemon = await withSignals(`${COUNT}\nspoold.addFileMonitor(1, ${JSON.stringify(path)})`, { spool })
    await daemon.waitFor('this daemon fires the schedules')
    for (const [title, change] of Object.entries(CHANGES)) {
      const before = daemon.journal().length
      change(path)
      await until(`the signal has come after the file was ${title}`, () => daemon.journal().length > before)
    }
    await daemon.waitFor(`[uwsgi-fsmon] detected event on "${path}"`)
  })

  it('of a directory fires for changes of its entries', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'watched')
    mkdirSync(path)
    const daemon = await withSignals(COUNT, { spool, ini: { 'fs-signal': `${path} 1` } })
    await daemon.waitFor('this daemon fires the schedules')
    for (const change of [
      () => writeFileSync(join(path, 'a'), ''),
      () => appendFileSync(join(path, 'a'), 'x'),
      () => rmSync(join(path, 'a')),
    ]) {
      const before = daemon.journal().length
      change()
      await until('the signal has come', () => daemon.journal().length > before)
    }
  })
})

describe('the schedules of an ini', { concurrency: 3 }, () => {
  for (const key of ['timer', 'signal-timer', 'rbtimer', 'signal-rbtimer'])
    it(`${key} raises its signal`, async () => {
      const daemon = await withSignals(COUNT, { ini: { [key]: ['1 0.2', '2 0.3'] } })
      await journaled(daemon, /^1/, 2)
      await journaled(daemon, /^2/, 2)
    })

  it('signal-cron raises its signal', async () => {
    const daemon = await withSignals(COUNT, { ini: { 'signal-cron': '1 TZ=Europe/Berlin */2 * * * * *' } })
    for (const line of await journaled(daemon, /^1/, 2))
      assert.equal(Math.floor(Number(line.slice(2)) / 1000) % 2, 0)
  })

  it('touch-signal raises its signal when the file is touched or made', async () => {
    const spool = spoolDirectory()
    const path = join(dirname(spool), 'touched')
    const daemon = await withSignals(COUNT, { spool, ini: { 'touch-signal': `${path} 1` } })
    await daemon.waitFor('this daemon fires the schedules')
    writeFileSync(path, '')
    await journaled(daemon, /^1/, 1)
    const later = new Date(Date.now() + 5000)
    utimesSync(path, later, later)
    await journaled(daemon, /^1/, 2)
    await daemon.waitFor(/- \[uwsgi-touch-signal\] raising 1/)
  })

  it('that are wrong are reported with their lines', async () => {
    const daemon = await withSignals(COUNT, {
      isUnready: true,
      ini: { timer: 'x', cron: '61 * * * * run', cron2: 'a=b run', 'fs-signal': '/a', 'cron-harakiri': 'x' },
    })
    assert.equal(await daemon.code(), 1)
    for (const wrong of [
      /app\.ini:4: error: timer: expected a signal and a number of seconds/,
      /app\.ini:5: error: cron: expected a number from 0 to 59 for the minute/,
      /app\.ini:6: error: cron2: expected keys out of/,
      /app\.ini:7: error: fs-signal: expected a file and a signal/,
      /app\.ini:8: error: cron-harakiri: expected a number of seconds/,
    ])
      assert.match(daemon.output, wrong)
  })

  it('have no part in signals that tasks raise, which are handled under --drain', async () => {
    const spool = spoolDirectory()
    drop(spool, taskName(), packet({ raise: '1,1,1' }))
    const slow = `registerSignal(1, '', () => new Promise(end => setTimeout(end, 150)).then(() => JOURNAL('1')))`
    const daemon = await withSignals(slow, { spool, args: ['--drain'], isUnready: true })
    assert.equal(await daemon.code(), 0)
    assert.equal(daemon.journal().length, 3)
  })

  it('fire nothing under --drain', async () => {
    const daemon = await withSignals(COUNT, {
      ini: { timer: '1 0.001', 'signal-cron': '1 * * * * * *' },
      args: ['--drain'],
      isUnready: true,
    })
    assert.equal(await daemon.code(), 0)
    assert.deepEqual(daemon.journal(), [])
  })
})

describe('a start', () => {
  it('keeps every schedule that code adds, at whatever moment of the start', async () => {
    const spool = spoolDirectory()
    const daemon = await withSignals(
      `${COUNT}
       let n = 0
       const adding = setInterval(() => {
         spoold.addTimer(1, 10_000 + n)
         if (++n === 60) clearInterval(adding)
       }, 1)`,
      { spool },
    )
    const known = async () => {
      const { stdout } = await spoold(['schedules', '--json', spool])
      return stdout.split('\n').filter(Boolean).length
    }
    await until('all schedules are known', async () => (await known()) === 60, 5000)
    assert.ok(daemon.isRunning)
  })
})

describe('a reload', { concurrency: 3 }, () => {
  const reload = async (daemon: Daemon) => {
    const before = daemon.output.length
    daemon.child.kill('SIGHUP')
    await until('the reload is done', () => daemon.output.slice(before).includes('the spoolers are reloaded'))
  }
  const settings = (daemon: Daemon) => ({
    spooler: join(daemon.directory, 'spool'),
    'spooler-import': daemon.handlerFile,
  })

  it('replaces the schedules of the old ini by those of the new one', async () => {
    const daemon = await withSignals(COUNT, { ini: { timer: '1 0.05' } })
    await journaled(daemon, /^1/, 1)
    writeIni(daemon.iniFile, { ...settings(daemon), timer: '2 0.05' })
    await reload(daemon)
    const before = daemon.journal().filter(line => line.startsWith('1')).length
    await journaled(daemon, /^2/, 5)
    assert.ok(daemon.journal().filter(line => line.startsWith('1')).length <= before + 1)
  })

  it('replaces the schedules of the old code by those of the new code, and forgets those added at run time', async () => {
    const daemon = await withSignals(`${COUNT}\nsetTimeout(() => spoold.addMsTimer(1, 50), 100)`)
    await journaled(daemon, /^1/, 3)
    writeFileSync(
      daemon.handlerFile,
      `import { appendFileSync } from 'node:fs'
       import { addMsTimer, registerSignal } from ${JSON.stringify(new URL('../../../dist/index.js', import.meta.url).pathname)}
       registerSignal(1, 'spooler', () => appendFileSync(${JSON.stringify(join(daemon.directory, 'journal'))}, '1\\n'))
       registerSignal(3, 'spooler', () => appendFileSync(${JSON.stringify(join(daemon.directory, 'journal'))}, '3\\n'))
       addMsTimer(3, 50)
       export default () => -2`,
    )
    await reload(daemon)
    const before = daemon.journal().filter(line => line.startsWith('1')).length
    await journaled(daemon, /^3/, 5)
    assert.ok(daemon.journal().filter(line => line.startsWith('1')).length <= before + 1)
  })

  it('does not disturb the pace of a timer that stays', async () => {
    const daemon = await withSignals(COUNT, { ini: { timer: '1 3' } })
    const [first = ''] = await journaled(daemon, /^1/, 1)
    await until('half the time of the timer is over', () => Date.now() > Number(first.slice(2)) + 1500)
    const beforeMs = Date.now()
    await reload(daemon)
    const [, second = ''] = await journaled(daemon, /^1/, 2)
    const sinceMs = Number(second.slice(2)) - beforeMs
    assert.ok(
      sinceMs < 3000 - CLOCKS_DIFFER_MS,
      `the timer fired ${sinceMs} ms after the reload: it began again`,
    )
  })
})

/** The calendar of commands knows only minutes, so all of them are tested in one minute. */
describe('the commands of an ini', { skip: skipUnless('mkfifo') }, () => {
  it('run each minute in a shell, with their output in the log and with a harakiri', async () => {
    const spool = spoolDirectory()
    const out = join(dirname(spool), 'out')
    const daemon = await withSignals(COUNT, {
      spool,
      env: clockBeforeMinute(10).env,
      ini: {
        cron: [`-1 -1 -1 -1 -1 echo "a b" $((1 + 1)); echo cron >> ${out}`, '* * * * * exec sleep 600'],
        'unique-cron': `*/1 * * * * echo unique >> ${out}`,
        cron2: [`echo plain >> ${out}`, `minute=-1,hour=-1,harakiri=1,zone=UTC sleep 700`],
        'cron-harakiri': 2,
      },
    })
    await until('the three long commands run', () => childrenOf(daemon.pid).length >= 3, 70_000)
    await daemon.waitFor('a b 2')
    await daemon.waitFor(/- \[uwsgi-cron\] running "echo plain [^"]*" \(pid \d+\)/)
    await daemon.waitFor(
      /^\[uwsgi-cron\] command "echo plain [^"]*" running with pid \d+ exited after \d+ second\(s\)/m,
    )
    await daemon.waitFor(/^\*\*\* HARAKIRI ON CRON "sleep 700" \(pid: \d+\) \*\*\*/m)
    await daemon.waitFor(/^\[uwsgi-cron\] command "sleep 700" .* exited after [1-9]\d* second\(s\)/m)
    await daemon.waitFor(/^\*\*\* HARAKIRI ON CRON "exec sleep 600"/m)
    await daemon.waitFor(
      /^\[uwsgi-cron\] command "exec sleep 600" .* exited after ([2-9]|\d\d+) second\(s\)/m,
    )
  })
})
