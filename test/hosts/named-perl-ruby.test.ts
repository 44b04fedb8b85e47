import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'
import { startHost } from './host-daemon.js'

interface Side {
  readonly tasks: string
  /** Schedules `greet` twice, from outside the daemon. */
  readonly program: string
  readonly command: (program: string) => readonly [string, ...string[]]
  readonly path: string
  /** Two tasks that the daemon schedules itself. */
  readonly periodic: string
  /** Wrong definitions of tasks, and what the start of the daemon says of each. */
  readonly wrong: ReadonlyArray<readonly [code: string, message: RegExp]>
}

const SIDES = {
  perl: {
    tasks: `
use Spoold::Tasks qw(task schedule retry abort);
my %runs;
task 'greet', sub { my ($to, $more) = @_; my $line = "$to " . (ref $more ? $more->{subject} : 'nothing') . ' ' . length $to; utf8::encode($line); journal($line) };
task 'chain', sub { schedule('greet', args => ['from a task'], kwargs => { subject => 'x' x 70000 }); return -1 };
task 'fails', sub { journal('fails'); die "it fails\\n" };
task 'aborts', max_retries => 5, sub { die abort('no such customer') };
task 'again', max_retries => 1, sub { journal('again'); die retry('later', at => time - 5) };
task 'loads', sub { my $link = __FILE__ . '.link'; symlink __FILE__, $link; do $link; journal('loaded ' . ($@ || 'again')) };
my @times = (9**9**9, -sin(9**9**9), 'tomorrow', [1], -5, 1e300);
task 'when', max_retries => 1, sub { die retry('when', at => $times[$_[0]]) };
uwsgi::spooler(sub { journal('dictionary ' . join ',', sort keys %{ $_[0] }); return uwsgi::SPOOL_OK });
`,
    program: `use Spoold::Tasks qw(schedule);
schedule('greet', args => ['joe'], kwargs => { subject => 'hi' });
schedule('greet', args => ["j\\x{e9}"]);
eval { schedule('greet', queue => 'mail') }; print $@`,
    command: program => ['perl', '-e', program],
    path: 'PERL5LIB',
    periodic: `
use Spoold::Tasks qw(task);
task 'tick', periodicity => 1, missed => 'skip', sub { journal('tick ' . scalar @_) };
task 'tock', cron => '* * * * * *', time_zone => 'Europe/Paris', overlap => 1, sub { journal('tock ' . scalar @_) };
`,
    wrong: [
      [
        "task 'a', periodicity => 0.5, sub {};",
        /task a \(.*\): periodicity must be 1 second or more: .* got 0.5/,
      ],
      ["task 'a', periodicity => 5, cron => '@daily', sub {};", /periodicity and cron cannot both be given/],
      [
        "task 'a', cron => '0 25 * * *', sub {};",
        /task a \(.*\): cron: expected a number from 0 to 23 for the hour/,
      ],
      ["task 'a', overlap => 1, sub {};", /overlap is of no use without periodicity or cron/],
    ],
  },
  ruby: {
    tasks: `
require 'spoold'
Spoold.task('greet') { |to, subject: 'nothing'| journal("#{to} #{subject} #{to.length}") }
Spoold.task('chain') { Spoold.schedule('greet', 'from a task', subject: 'x' * 70_000); -1 }
Spoold.task('fails') { journal('fails'); raise 'it fails' }
Spoold.task('aborts', max_retries: 5) { raise Spoold::Abort, 'no such customer' }
Spoold.task('again', max_retries: 1) { journal('again'); raise Spoold::Retry.new('later', at: Time.now - 5) }
Spoold.task('loads') { File.symlink(__FILE__, "#{__FILE__}.rb"); load("#{__FILE__}.rb"); journal('loaded again') }
require 'date'
TIMES = [Float::INFINITY, Float::NAN, 'tomorrow', [1], Time.at(-5), Time.at(10**15), Date.new(9000, 1, 1)].freeze
Spoold.task(:when, max_retries: 1) { |i| raise Spoold::Retry.new('when', at: TIMES[i]) }
module UWSGI
  def self.spooler(env)
    journal("dictionary #{env.keys.sort.join(',')}")
    UWSGI::SPOOL_OK
  end
end
`,
    program: `require 'spoold'
Spoold.schedule('greet', 'joe', subject: 'hi')
Spoold.schedule_at('greet', Time.now - 1, "j\\u00e9")
['2030-01-01', 5].each { |at| begin; Spoold.schedule_at('greet', at, 'x'); rescue ArgumentError => e; puts e.message; end }
ENV.delete('SPOOLD_ENQUEUE_TO')
begin; Spoold.schedule('greet'); rescue ArgumentError => e; puts e.message; end`,
    command: program => ['ruby', '-e', program],
    path: 'RUBYLIB',
    periodic: `
require 'spoold'
Spoold.task('tick', periodicity: 1, missed: 'skip') { |*args| journal("tick #{args.length}") }
Spoold.task('tock', cron: '* * * * * *', time_zone: 'Europe/Paris', overlap: true) { |a = 0| journal("tock #{a}") }
`,
    wrong: [
      [
        "Spoold.task('a', periodicity: 0.5) {}",
        /task a \(.*\): periodicity must be 1 second or more: .* got 0.5/,
      ],
      ["Spoold.task('a', periodicity: 5, cron: '@daily') {}", /periodicity and cron cannot both be given/],
      [
        "Spoold.task('a', cron: '0 25 * * *') {}",
        /task a \(.*\): cron: expected a number from 0 to 23 for the hour/,
      ],
      ["Spoold.task('a', overlap: true) {}", /overlap is of no use without periodicity or cron/],
      [
        "Spoold.task('a', periodicity: 5) { |to| p to }",
        /a is periodic, so it is called without arguments, and its block needs 1/,
      ],
      [
        "Spoold.task('a', periodicity: 5) { |to:| p to }",
        /a is periodic, so it is called without arguments, and its block needs 1/,
      ],
    ],
  },
} as const satisfies Record<string, Side>

/** Returns a line for each dead letter that says why it is dead. */
function deadIn(spool: string): string[] {
  const dead = join(spool, '.spoold/dead')
  if (!existsSync(dead)) return []
  return readdirSync(dead)
    .filter(name => name.endsWith('.json'))
    .map(name => JSON.parse(readFileSync(join(dead, name), 'utf8')))
    .map(({ reason, attempts, lastError }) => `${reason} ${attempts} ${String(lastError).split('\n').at(-1)}`)
    .sort()
}

for (const [language, { tasks, program, command, path, periodic, wrong }] of Object.entries(SIDES))
  describe(`named tasks in ${language}`, { skip: skipUnless(language as 'perl' | 'ruby') }, () => {
    it('are scheduled and run by name, beside a handler that gets all other packets', async () => {
      const spool = spoolDirectory()
      const [program_, ...args] = command(program)
      const library = join(ROOT, 'dist/hosts', language, 'library')
      const env = { ...process.env, [path]: library, SPOOLD_ENQUEUE_TO: spool }
      const printed = execFileSync(program_, args, { encoding: 'utf8', env })
      assert.match(printed, /SPOOLD_ENQUEUE_TO/)
      const onRedis = { ...env, SPOOLD_ENQUEUE_TO: 'redis://:secret@127.0.0.1/0/mail' }
      const { stderr } = spawnSync(program_, args, { encoding: 'utf8', env: onRedis })
      assert.match(stderr, /does not store tasks on Redis itself: name the directory .*spooler-fallback/)
      assert.doesNotMatch(stderr, /secret/)
      assert.equal(leftIn(spool).length, 2)
      const daemon = await startHost(language as 'perl' | 'ruby', { spool, handler: tasks })
      await until('both tasks have run', () => leftIn(spool).length === 0)
      assert.deepEqual(daemon.journal().sort(), ['joe hi 3', 'jé nothing 2'].sort())

      for (const task of ['chain', 'fails', 'aborts', 'again', 'loads']) drop(spool, task, packet({ task }))
      drop(spool, 'wrong', packet({ task: 'greet', args: '{}' }))
      drop(spool, 'other', packet({ task: 'not-mine' }))
      drop(spool, 'plain', packet({ to: 'joe' }))
      await until('all tasks have ended', () => leftIn(spool).length === 0 && deadIn(spool).length === 4)
      assert.deepEqual(
        daemon
          .journal()
          .slice(2)
          .map(line => line.replace(/x{70000}/, 'x'))
          .sort(),
        [
          'again',
          'again',
          'dictionary spooler_task_name,task',
          'dictionary spooler_task_name,to',
          'fails',
          'from a task x 11',
          'loaded again', // a file under another name is the same file
        ],
      )
      const [aborted = '', wrong = '', fails = '', again = ''] = deadIn(spool)
      assert.equal(aborted, 'asked 1 no such customer')
      assert.match(wrong, /^asked 1 .*args: expected a JSON array/)
      assert.match(fails, /^attempts 1 /)
      assert.equal(again, 'attempts 2 later')
      await daemon.waitFor(/it fails/)
    })

    it('run again at the time that they ask for, however far off, and fail if that is no time', async () => {
      const spool = spoolDirectory()
      const handler = tasks
      const daemon = await startHost(language as 'perl' | 'ruby', { spool, handler })
      for (let i = 0; i < 6; i++) drop(spool, `when${i}`, packet({ task: 'when', args: `[${i}]` }))
      const refused = () => daemon.output.match(/at is to be (?:epoch seconds|a Time), got /g) ?? []
      await until('four times are refused', () => refused().length >= 4)
      await until('the task with a past time has failed twice', () =>
        deadIn(spool).includes('attempts 2 when'),
      )
      assert.ok(leftIn(spool).includes('when5'), 'the task with a time in the year 31,000,000 waits')
      assert.doesNotMatch(daemon.output, /replacing it|could not be settled/)
    })

    it('are scheduled by the daemon if they are periodic', async () => {
      const handler = periodic
      const daemon = await startHost(language as 'perl' | 'ruby', { spool: spoolDirectory(), handler })
      for (const line of ['tick 0', 'tock 0'])
        await until(`two of ${line}`, () => daemon.journal().filter(each => each === line).length >= 2)
    })

    for (const [code, message] of wrong)
      it(`are refused as ${code}`, async () => {
        const handler = `${periodic}${code}\n`
        const daemon = await startHost(language as 'perl' | 'ruby', {
          spool: spoolDirectory(),
          handler,
          isUnready: true,
        })
        assert.equal((await daemon.exited).code, 1)
        assert.match(daemon.output, message)
      })
  })
