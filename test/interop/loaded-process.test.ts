import assert from 'node:assert/strict'
import { appendFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { spoold } from '../helpers/cli.js'
import { snapshotOf } from '../helpers/control.js'
import { type Daemon, readJournal, writeIni } from '../helpers/daemon.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { DEBIAN, UWSGIS } from '../helpers/uwsgi.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { type Language, OPTIONS, startHost, writeHandler } from '../hosts/host-daemon.js'

/** Code that changes its process while it is loaded, and has a signal at each hour of `hours`. */
const SOURCES: Readonly<Record<Language, (hours: readonly number[]) => string>> = {
  python: hours => `
os.environ['TZ'] = 'Asia/Kolkata'
os.environ['OF_CODE'] = 'set'
os.environ.pop('OF_START', None)
os.umask(0o027)
os.chdir('/usr')
uwsgi.spooler = lambda env: uwsgi.SPOOL_OK
uwsgi.register_signal(1, 'spooler', lambda number: journal('fired'))
for hour in ${JSON.stringify(hours)}: uwsgi.add_cron(1, -1, hour, -1, -1, -1)
`,
  perl: () => `
$ENV{TZ} = 'Asia/Kolkata'; $ENV{OF_CODE} = 'set'; delete $ENV{OF_START}; umask 027; chdir '/usr';
uwsgi::spooler(sub { uwsgi::SPOOL_OK });
uwsgi::register_signal(1, 'spooler', sub { journal('fired') });
`,
  ruby: hours => `
ENV['TZ'] = 'Asia/Kolkata'; ENV['OF_CODE'] = 'set'; ENV.delete('OF_START'); File.umask(027); Dir.chdir('/usr')
module UWSGI; def self.spooler(env) UWSGI::SPOOL_OK end; end
UWSGI.register_signal(1, 'spooler', ->(number) { journal('fired') })
${JSON.stringify(hours)}.each { |hour| UWSGI.add_cron(1, -1, hour, -1, -1, -1) }
`,
}

/** Writes what the command of a cron finds: directory, umask, zone and two variables. */
const COMMAND = `echo "$(pwd) $(umask) $(date +%z) $OF_CODE $OF_START" > $HERE/seen; mv $HERE/seen $HERE/found`
const CHANGED = '/usr 0027 +0530 set'
const cron = { cron: '-1 -1 -1 -1 -1 sh $(HERE)/command.sh' }

function prepare(spool: string): Readonly<Record<string, string>> {
  writeFileSync(join(dirname(spool), 'command.sh'), COMMAND)
  return { HERE: dirname(spool), OF_START: 'there', TZ: 'UTC' }
}

const found = (spool: string) =>
  until('the command has run', () => {
    try {
      return readFileSync(join(dirname(spool), 'found'), 'utf8').trim()
    } catch {
      return undefined
    }
  })

/** Returns the hours of this minute and of the next: uWSGI fires at once a cron that matches the minute of its start. */
function hoursOfNow(zone: string): number[] {
  return [hourIn(zone, Date.now()), hourIn(zone, Date.now() + 60_000)]
}

function hourIn(timeZone: string, ms: number): number {
  return Number(new Intl.DateTimeFormat('en', { timeZone, hour: 'numeric', hourCycle: 'h23' }).format(ms))
}

async function runCommand(spool: string, daemon: Daemon): Promise<string> {
  rmSync(join(dirname(spool), 'found'), { force: true })
  const { schedules } = await snapshotOf(spool)
  const { id = '' } = schedules.find(({ schedule }) => schedule.kind === 'command') ?? {}
  const { code, stderr } = await spoold(['schedules', spool, '--run', id])
  assert.equal(code, 0, `${stderr}${daemon.output}`)
  return found(spool)
}

const zonesOf = async (spool: string) => (await snapshotOf(spool)).schedules.map(({ zone }) => zone)

describe('crons and their commands after loaded code has set directory, umask, zone and environment', {
  concurrency: 2,
}, () => {
  const RUNS = [
    ...UWSGIS.map(uwsgi => ({
      uwsgi,
      language: 'python' as const,
      plugin: uwsgi.python,
      own: uwsgi.samePython,
    })),
    { uwsgi: DEBIAN, language: 'perl' as const, plugin: { plugin: 'psgi' }, own: {} },
    { uwsgi: DEBIAN, language: 'ruby' as const, plugin: { plugin: 'rack_ruby31' }, own: {} },
  ]
  for (const { uwsgi, language, plugin, own } of RUNS) {
    const needs = language === 'python' ? 'python3' : language
    it(`in ${language} run as under ${uwsgi.title}`, { skip: skipUnless(uwsgi.needs, needs) }, async () => {
      const theirs = spoolDirectory()
      const env = prepare(theirs)
      const file = writeHandler(theirs, language, SOURCES[language](hoursOfNow('Asia/Kolkata')))
      const ini = join(dirname(theirs), 'app.ini')
      writeIni(ini, {
        ...plugin,
        master: true,
        'die-on-term': true,
        spooler: theirs,
        [OPTIONS[language]]: file,
        ...cron,
      })
      const peer = new TestProcess(uwsgi.command, [ini], {
        cwd: dirname(theirs),
        env: { ...process.env, ...env },
      })
      const expected = await found(theirs)
      // uWSGI's Perl adds no crons
      if (language !== 'perl')
        await until('the signal of its cron has fired', () => readJournal(dirname(theirs)).includes('fired'))
      peer.child.kill('SIGTERM')
      await peer.exited

      const spool = spoolDirectory()
      const daemon = await startHost(language, {
        spool,
        handler: SOURCES[language]([5]),
        ini: { ...own, ...cron },
        env: { ...process.env, ...prepare(spool) },
      })
      assert.equal(expected, CHANGED)
      assert.equal(await runCommand(spool, daemon), expected)
      const { schedules } = await snapshotOf(spool)
      for (const { schedule, zone, nextAtMs } of schedules) {
        assert.equal(zone, 'Asia/Kolkata')
        if (schedule.kind === 'cron') assert.equal(hourIn('Asia/Kolkata', nextAtMs ?? 0), 5)
      }
      assert.equal(schedules.length, language === 'perl' ? 1 : 2)
      assert.match(
        daemon.output,
        /the time zone of schedules is Asia\/Kolkata, because the code that was loaded has set TZ=Asia\/Kolkata/,
      )
      daemon.child.kill('SIGTERM')
      await daemon.exited
    })
  }

  it('run without these settings with lazy-apps, where the master does not load the code', {
    skip: skipUnless('python3'),
  }, async () => {
    const theirs = spoolDirectory()
    const env = prepare(theirs)
    const file = writeHandler(theirs, 'python', SOURCES.python([]))
    const ini = join(dirname(theirs), 'app.ini')
    const spool = spoolDirectory()
    const ours = await startHost('python', {
      spool,
      handler: SOURCES.python([5]),
      ini: { ...cron, 'lazy-apps': true },
      env: { ...process.env, ...prepare(spool) },
    })
    const run = await runCommand(spool, ours)
    assert.deepEqual(await zonesOf(spool), ['UTC', 'UTC'])
    assert.match(run, /^\S+ 0022 \+0000 {2}there$/)
    ours.child.kill('SIGTERM')
    await ours.exited
    if (skipUnless('uwsgi') !== false) return
    writeIni(ini, {
      ...DEBIAN.python,
      master: true,
      'die-on-term': true,
      'lazy-apps': true,
      spooler: theirs,
      import: file,
      ...cron,
    })
    const peer = new TestProcess(DEBIAN.command, [ini], {
      cwd: dirname(theirs),
      env: { ...process.env, ...env },
    })
    assert.equal((await found(theirs)).replace(/^\S+/, ''), run.replace(/^\S+/, ''))
    peer.child.kill('SIGTERM')
    await peer.exited
  })

  it('follow the zone at a reload, none lost or doubled', { skip: skipUnless('python3') }, async () => {
    const spool = spoolDirectory()
    const daemon = await startHost('python', {
      spool,
      handler: SOURCES.python([5]),
      ini: cron,
      env: { ...process.env, ...prepare(spool) },
    })
    const before = (await snapshotOf(spool)).schedules
    writeHandler(spool, 'python', SOURCES.python([5]).replaceAll('Asia/Kolkata', 'Europe/Vilnius'))
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the time zone of schedules is Europe/Vilnius')
    const after = (await snapshotOf(spool)).schedules
    assert.deepEqual(
      after.map(({ id, zone }) => [id, zone]).sort(),
      before.map(({ id }) => [id, 'Europe/Vilnius']).sort(),
    )
    assert.notEqual(timeOf(after), timeOf(before))
    writeHandler(spool, 'python', SOURCES.python([5]).replace(/os\.(?!env)\w+\(.*\)|os\.environ.*/g, ''))
    daemon.child.kill('SIGHUP')
    await daemon.waitFor('the time zone of schedules is UTC, because the environment has TZ=UTC')
    assert.match(await runCommand(spool, daemon), /^\S+ 0022 \+0000 {2}there$/)
    const inUtc = timeOf((await snapshotOf(spool)).schedules)
    appendFileSync(daemon.iniFile, 'env = TZ=Asia/Kolkata\n')
    daemon.child.kill('SIGHUP')
    await daemon.waitFor(
      'the time zone of schedules is Asia/Kolkata, because the configuration has env = TZ=Asia/Kolkata',
    )
    assert.notEqual(timeOf((await snapshotOf(spool)).schedules), inUtc)
    daemon.child.kill('SIGTERM')
    await daemon.exited
  })
})

const timeOf = (schedules: Awaited<ReturnType<typeof snapshotOf>>['schedules']) =>
  schedules.find(({ schedule }) => schedule.kind === 'cron')?.nextAtMs
