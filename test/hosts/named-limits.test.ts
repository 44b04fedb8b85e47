import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from './host-daemon.js'

// In each language: tasks that kill their interpreter, without retries and with two; a task with one retry that always fails;
// and a handler of dictionaries that registers a task when it is called.
const MODULES = {
  python: `
from spoold import RetryException, Tasks
tasks = Tasks()
def die(name):
    journal(name)
    os.kill(os.getpid(), 9)
tasks.add(lambda: die('once'), name='once')
tasks.add(lambda: die('zero'), name='zero', max_retries=0)
tasks.add(lambda: die('thrice'), name='thrice', max_retries=2)
@tasks.task(name='fails', max_retries=1)
def fails():
    journal('fails')
    raise RetryException('again', at=__import__('datetime').datetime(2000, 1, 1))
def spooler(env):
    if b'register' not in env and 'register' not in env: return uwsgi.SPOOL_IGNORE
    tasks.add(lambda: journal('late'), name='late')
    journal('registered')
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`,
  perl: `
use Spoold::Tasks qw(task retry);
sub die_as { my ($name) = @_; return sub { journal($name); kill 9, $$; sleep 60 } }
task 'once', die_as('once');
task 'zero', max_retries => 0, die_as('zero');
task 'thrice', max_retries => 2, die_as('thrice');
task 'fails', max_retries => 1, sub { journal('fails'); die retry('again', at => 0) };
uwsgi::spooler(sub {
  return uwsgi::SPOOL_IGNORE unless defined $_[0]{register};
  task 'late', sub { journal('late') };
  journal('registered');
  return uwsgi::SPOOL_OK;
});
`,
  ruby: `
require 'spoold'
def die_as(name) = (journal(name); Process.kill(:KILL, Process.pid); sleep 60)
Spoold.task('once') { die_as('once') }
Spoold.task('zero', max_retries: 0) { die_as('zero') }
Spoold.task('thrice', max_retries: 2) { die_as('thrice') }
Spoold.task('fails', max_retries: 1) { journal('fails'); raise Spoold::Retry.new('again', at: Time.at(0)) }
module UWSGI
  def self.spooler(env)
    return UWSGI::SPOOL_IGNORE unless env.key?('register')
    Spoold.task('late') { journal('late') }
    journal('registered')
    UWSGI::SPOOL_OK
  end
end
`,
} as const

interface Letter {
  readonly reason: string
  readonly attempts: number
  readonly ref: string
}

function lettersIn(spool: string): readonly Letter[] {
  const dead = join(spool, '.spoold/dead')
  const names = existsSync(dead) ? readdirSync(dead) : []
  return names
    .filter(name => name.endsWith('.json'))
    .map(name => JSON.parse(readFileSync(join(dead, name), 'utf8')))
}

for (const [language, handler] of Object.entries(MODULES) as Array<[keyof typeof MODULES, string]>)
  describe(`limits of named tasks in ${language}`, {
    skip: skipUnless(language === 'python' ? 'python3' : language),
  }, () => {
    it('hold if a task kills its interpreter: one run without retries, n + 1 runs with n retries', async () => {
      const spool = spoolDirectory()
      const daemon = await startHost(language, { spool, handler, ini: { 'spooler-max-crashes': 9 } })
      const names = ['once', 'zero', 'thrice', 'fails']
      for (const task of names) drop(spool, task, packet({ task, args: '[]' }))
      await until('all tasks are buried', () => lettersIn(spool).length === names.length)
      const runs = daemon.journal()
      const runsOf = (name: string) => runs.filter(line => line === name).length
      assert.deepEqual(names.map(runsOf), [1, 1, 3, 2])
      assert.deepEqual(
        Object.fromEntries(
          lettersIn(spool).map(({ ref, reason, attempts }) => [ref, `${reason} ${attempts}`]),
        ),
        { once: 'outcome-unknown 0', zero: 'outcome-unknown 0', thrice: 'attempts 3', fails: 'attempts 2' },
      )
      await until('each task has left the spool', () => leftIn(spool).length === 0) // its letter is written before
    })

    it('are known before the first run, so that a task that is registered later is parked', async () => {
      const spool = spoolDirectory()
      const daemon = await startHost(language, { spool, handler, ini: { 'spooler-frequency': 1000 } })
      drop(spool, 'first', packet({ register: 'yes' }))
      await until('the task is registered', () => daemon.journal().includes('registered'))
      drop(spool, 'second', packet({ task: 'late', args: '[]' }))
      await daemon.waitFor(/second is parked: no handler knows the task late/)
      assert.deepEqual(leftIn(spool), ['second'])
      assert.deepEqual(daemon.journal(), ['registered'])
    })
  })
