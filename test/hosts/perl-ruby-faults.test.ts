import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isAlive } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { hostsOf, OPTIONS, startHost } from './host-daemon.js'

/** What a handler does to its interpreter, in both languages, and what the log says of that. */
const MISDEEDS = {
  exits: { perl: 'exit 3', ruby: 'exit! 3', death: 'exited with code 3' },
  'is killed': { perl: 'kill KILL => $$', ruby: 'Process.kill :KILL, $$', death: 'was killed by SIGKILL' },
  'closes all descriptors': {
    perl: 'require POSIX; POSIX::close($_) for 3 .. 50',
    ruby: '(3..50).each { |fd| IO.for_fd(fd).close rescue nil }',
    death: '(exited with code|was killed by)',
  },
  'writes to the pipe of its interpreter': {
    perl: 'open(my $pipe, ">&=", 3); syswrite $pipe, "nonsense" x 9; sleep 60',
    ruby: 'IO.for_fd(3, autoclose: false).syswrite("nonsense" * 9); sleep 60',
    death: 'was killed, because something other than the host wrote',
  },
} as const

const LANGUAGES = {
  perl: {
    name: 'Perl',
    file: 'tasks.pl',
    handler: (misdeed: string) => `
uwsgi::spooler(sub {
    my ($env) = @_;
    journal("$env->{a} $$");
    if ($env->{a} eq 'bad') { ${misdeed} }
    return uwsgi::SPOOL_OK;
});`,
    /** The parent answers at once; one child waits for the gate, the other one returns from the handler. */
    forks: (gate: string) => `
uwsgi::spooler(sub {
    if (!fork) { for (1 .. 9000) { last if -e '${gate}'; select(undef, undef, undef, .01) } journal('outlived'); POSIX::_exit(0) }
    my $child = fork;
    if (!$child) { eval { uwsgi::spool({ a => 1 }) }; journal($@ =~ s/ at .*//sr); return -2 }
    waitpid $child, 0;
    journal('done');
    return -2;
});
require POSIX;`,
    failingChild: `
uwsgi::spooler(sub {
    my $child = fork;
    die 'in a child' if !$child;
    waitpid $child, 0;
    journal($? >> 8);
    return -2;
});`,
    /** Fills the pipe while signals arrive, so that a write that has to wait is interrupted. */
    fills: `
use Fcntl;
use Time::HiRes 'setitimer';
uwsgi::spooler(sub {
    my ($env) = @_;
    journal($env->{a});
    setitimer(Time::HiRes::ITIMER_REAL(), .001, .001);
    my $flags = fcntl(STDOUT, F_GETFL, 0);
    fcntl(STDOUT, F_SETFL, $flags | O_NONBLOCK);
    1 while defined syswrite(STDOUT, 'x' x 1023 . "\n");
    fcntl(STDOUT, F_SETFL, $flags) if $env->{a} eq 'blocking';
    return -2;
})`,
    /** Waits until the file that the task names exists. */
    waits: `
uwsgi::spooler(sub {
    my ($env) = @_;
    journal(1);
    for (1 .. 9000) { last if $env->{gate} eq '' || -e $env->{gate}; select(undef, undef, undef, .01) }
    return -2;
})`,
    busy: 'uwsgi::spooler(sub { journal($$); sleep 60 })',
    adrift: `use POSIX ();
uwsgi::spooler(sub {
    POSIX::close($_) for grep { $_ != fileno $journal } 3 .. 100;
    journal($$);
    sleep 60;
})`,
    leaves: 'uwsgi::atexit(sub { journal("left") }); uwsgi::spooler(sub { journal($$); return -2 })',
    unloadable: [
      'sub f { no_such_function(1) }\nf();',
      /Undefined subroutine &main::no_such_function called at .*tasks\.pl line \d+/,
    ],
    missing: [
      'uwsgi::spooler(sub { uwsgi::websocket_recv() })',
      'uwsgi::websocket_recv is not there under spoold: docs/hosts.md',
    ],
    reports: `
uwsgi::spooler(sub {
    uwsgi::metric_inc('mails', 2);
    uwsgi::alarm('mail', 'sent');
    return -2;
})`,
    reported: /uwsgi::metric_inc does nothing under spoold[\s\S]*uwsgi::alarm does nothing under spoold/,
  },
  ruby: {
    name: 'Ruby',
    file: './tasks.rb',
    handler: (misdeed: string) => `
def UWSGI.spooler(env)
  journal("#{env['a']} #{$$}")
  if env['a'] == 'bad' then ${misdeed} end
  UWSGI::SPOOL_OK
end`,
    forks: (gate: string) => `
def UWSGI.spooler(env)
  fork { 9000.times { sleep 0.01 unless File.exist?('${gate}') }; journal('outlived'); exit! }
  child = fork
  unless child
    begin UWSGI.spool({ 'a' => '1' }) rescue journal($!.message) end
    return -2
  end
  Process.wait(child)
  journal('done')
  -2
end`,
    failingChild: `
def UWSGI.spooler(env)
  child = fork
  raise 'in a child' if child.nil?
  _, status = Process.wait2(child)
  journal((status.to_i >> 8).to_s)
  UWSGI::SPOOL_OK
end`,
    fills: `
def UWSGI.spooler(env)
  journal(env['a'])
  $signals ||= Thread.new { loop { sleep 0.001; Process.kill(:ALRM, $$) } }
  loop { STDOUT.write_nonblock("#{'x' * 1023}\n") } rescue nil
  STDOUT.nonblock = false if env['a'] == 'blocking'
  -2
end
require 'io/nonblock'`,
    waits: `
def UWSGI.spooler(env)
  journal('1')
  9000.times { sleep 0.01 unless env['gate'].empty? || File.exist?(env['gate']) }
  -2
end`,
    busy: 'def UWSGI.spooler(env) journal($$.to_s); sleep 60 end',
    adrift: `def UWSGI.spooler(env)
  (3..100).each { |fd| (IO.for_fd(fd).close unless fd == $journal.fileno) rescue nil }
  journal($$.to_s)
  sleep 60
end`,
    leaves: "at_exit { journal('left') }\ndef UWSGI.spooler(env) journal($$.to_s); -2 end",
    unloadable: [
      'def f() nonsense end\nf',
      /tasks\.rb:\d+:in .f': undefined local variable or method .nonsense[\s\S]*NameError/,
    ],
    missing: [
      'def UWSGI.spooler(env) UWSGI.websocket_recv end',
      'UWSGI.websocket_recv is not there under spoold: docs/hosts.md',
    ],
    reports: `
def UWSGI.spooler(env)
  UWSGI.metric_inc('mails', 2) if UWSGI.respond_to?(:metric_inc)
  UWSGI.alarm('mail', 'sent')
  -2
end`,
    reported: /UWSGI\.metric_inc does nothing under spoold[\s\S]*UWSGI\.alarm does nothing under spoold/,
  },
} as const

describe('the Ruby host', { skip: skipUnless('ruby') }, () => {
  it('runs the next tasks in the same interpreter if a thread stays in a block of Dir.chdir', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 3; i++) drop(spool, `uwsgi_spoolfile_on_${i}`)
    const handler = `
def UWSGI.spooler(env)
  journal($$.to_s)
  inside = Queue.new
  $thread ||= Thread.new { Dir.chdir('/') { inside << 1; sleep } }.tap { inside.pop }
  -2
end`
    const ini = { 'spooler-ordered': true, 'spooler-max-crashes': 1 }
    const daemon = await startHost('ruby', { spool, handler, ini })
    await until('all tasks are over', () => leftIn(spool).length === 0)
    assert.equal(daemon.journal().length, 3)
    assert.equal(new Set(daemon.journal()).size, 1, 'one interpreter')
  })
})

for (const language of ['perl', 'ruby'] as const) {
  const sources = LANGUAGES[language]
  describe(`the ${sources.name} host`, { skip: skipUnless(language) }, () => {
    for (const [what, misdeed] of Object.entries(MISDEEDS))
      it(`counts one crash, and runs the other tasks once, if a handler ${what}`, async () => {
        const spool = spoolDirectory()
        for (let i = 0; i < 20; i++) drop(spool, `uwsgi_spoolfile_on_a_${i}`, packet({ a: `good ${i}` }))
        drop(spool, 'uwsgi_spoolfile_on_a_9_bad', packet({ a: 'bad' }))
        const daemon = await startHost(language, {
          spool,
          handler: sources.handler(misdeed[language]),
          // the second interpreter finds it too
          ini: { [OPTIONS[language]]: sources.file, 'spooler-ordered': true, 'spooler-max-crashes': 1 },
        })
        await until('all tasks are over', () => leftIn(spool).length === 0)
        const runs = daemon.journal()
        assert.deepEqual(
          runs.map(line => line.replace(/ \d+$/, '')).sort(),
          ['bad', ...Array.from({ length: 20 }, (_, i) => `good ${i}`)].sort(),
        )
        assert.equal(new Set(runs.map(line => line.split(' ').at(-1))).size, 2, 'two interpreters')
        await daemon.waitFor(new RegExp(`the ${sources.name} interpreter that ran it ${misdeed.death}`))
        assert.ok(existsSync(join(spool, '.spoold/dead/uwsgi_spoolfile_on_a_9_bad')))
      })

    it('lets a forked process outlive its task, and ends one that returns from the handler', async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      drop(spool)
      const daemon = await startHost(language, { spool, handler: sources.forks(gate) })
      await until('the task is over', () => leftIn(spool).length === 0 && daemon.journal().includes('done'))
      assert.equal(daemon.journal().length, 2)
      assert.match(daemon.journal()[0] ?? '', /a process that a task forked cannot speak for it/)
      assert.equal(hostsOf(daemon).length, 1)
      writeFileSync(gate, '')
      await until('the child goes on', () => daemon.journal().includes('outlived'))
      drop(spool)
      const times = (line: string) => daemon.journal().filter(each => each === line).length
      await until(
        'the next task is over, and its child',
        () => times('done') === 2 && times('outlived') === 2,
      )
    })

    it('logs the error of a forked child, which exits with 1', async () => {
      const spool = spoolDirectory()
      drop(spool)
      const handler = sources.failingChild
      const daemon = await startHost(language, { spool, handler, ini: { drain: true }, isUnready: true })
      assert.equal(await daemon.code(), 0)
      assert.deepEqual(daemon.journal(), ['1'])
      assert.match(daemon.output, /in a child/)
    })

    for (const a of ['blocking', 'non-blocking'])
      it(`counts the answer of a handler that has filled the pipe of its output, which is ${a}`, async () => {
        const spool = spoolDirectory()
        for (let i = 0; i < 5; i++) drop(spool, undefined, packet({ a }))
        const ini = { 'spooler-max-crashes': 1 }
        const daemon = await startHost(language, { spool, handler: sources.fills, ini })
        await until('all tasks are over', () => leftIn(spool).length === 0)
        await until('all tasks are done', () => daemon.output.match(/^\S.* done with task /gm)?.length === 5)
        assert.equal(daemon.journal().length, 5)
      })

    it('gives back the tasks that it has not begun when the daemon stops', async () => {
      const spool = spoolDirectory()
      const gate = join(dirname(spool), 'gate')
      // because of the fast tasks it gets many at a time
      for (let i = 1000; i < 3000; i++)
        drop(spool, `uwsgi_spoolfile_on_${i}`, packet({ gate: i === 2000 ? gate : '' }))
      const daemon = await startHost(language, {
        spool,
        handler: sources.waits,
        ini: { 'spooler-ordered': true, 'spooler-quiet': true },
      })
      const [host = 0] = hostsOf(daemon)
      await until('the slow task waits', () => daemon.journal().length === 1001, 60_000)
      daemon.child.kill('SIGTERM')
      const isRecalled = () => readFileSync(`/proc/${host}/fd/5`)[4032] === 1
      // if a task takes over 2 ms, it gets one at a time, and has nothing to give back
      const recalled = await until('the flag on its page is set', isRecalled, 10_000).catch(() => false)
      writeFileSync(gate, '')
      assert.equal(await daemon.code(), 0)
      assert.equal(daemon.journal().length + leftIn(spool).length, 2000)
      if (recalled) assert.equal(daemon.journal().length, 1001)
    })

    it('dies with its worker, and has time for its exit functions when the daemon stops', async () => {
      const spool = spoolDirectory()
      const daemon = await startHost(language, { spool, handler: sources.leaves })
      const [first = 0] = hostsOf(daemon)
      const [worker = 0] = daemon.workers()
      process.kill(worker, 'SIGKILL')
      await until('the interpreter is gone', () => !isAlive(first))
      await until('another interpreter has come', () => hostsOf(daemon).some(pid => pid !== first))
      drop(spool)
      await until('the task is over', () => leftIn(spool).length === 0)
      daemon.child.kill('SIGTERM')
      assert.equal(await daemon.code(), 0)
      assert.equal(daemon.journal().at(-1), 'left')
      assert.equal(daemon.journal().length, 2)
    })

    for (const [what, handler] of [
      ['', sources.busy],
      [' that has closed its descriptors', sources.adrift],
    ] as const)
      it(`dies with its worker in the middle of a task${what}`, async () => {
        const spool = spoolDirectory()
        drop(spool)
        const daemon = await startHost(language, { spool, handler })
        await until('the task runs', () => daemon.journal().length === 1)
        const host = Number(daemon.journal()[0])
        const [worker = 0] = daemon.workers()
        process.kill(worker, 'SIGKILL')
        await until('the interpreter is gone', () => !isAlive(host), 20_000)
        assert.equal(leftIn(spool).length, 1)
      })

    it('names a function that the module lacks', async () => {
      const spool = spoolDirectory()
      drop(spool)
      const daemon = await startHost(language, { spool, handler: sources.missing[0] })
      await daemon.waitFor(sources.missing[1])
    })

    it('runs a task that counts a metric and raises an alarm, which do nothing, and says so once', async () => {
      const spool = spoolDirectory()
      const daemon = await startHost(language, { spool, handler: sources.reports })
      drop(spool, 'a')
      drop(spool, 'b')
      for (const name of ['a', 'b']) await daemon.waitFor(`done with task ${name}`)
      assert.match(daemon.output, sources.reported)
      assert.equal(daemon.output.split('metric_inc does nothing').length, 2)
    })

    it('does not start with code that cannot be loaded, and says where it fails', async () => {
      const spool = spoolDirectory()
      const daemon = await startHost(language, { spool, handler: sources.unloadable[0], isUnready: true })
      assert.equal(await daemon.code(), 1)
      assert.match(daemon.output, sources.unloadable[1])
      assert.doesNotMatch(daemon.output, /src\/hosts/)
    })

    it('does not start without an interpreter, and names the package', async () => {
      const spool = spoolDirectory()
      const setup = { spool, handler: sources.leaves, isUnready: true }
      const named = await startHost(language, { ...setup, ini: { [language]: 'nowhere/to/be/found' } })
      assert.equal(await named.code(), 1)
      assert.match(named.output, new RegExp(`app.ini:\\d+: error: .*install the package ${language}`))
      const bare = await startHost(language, { ...setup, env: { PATH: dirname(spool) } })
      assert.equal(await bare.code(), 1)
      assert.match(bare.output, new RegExp(`${language} is not on PATH .*install the package ${language}`))
    })
  })
}
