import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from './host-daemon.js'

// In each language: a task of which two run at a time, and a task without a limit.
const MODULES = {
  python: `
from spoold import Tasks
tasks = Tasks(max_retries=5)
@tasks.task(name='few', max_concurrency=2)
def few(go):
    journal('begin')
    while not os.path.exists(go): time.sleep(0.01)
    journal('end')
tasks.add(lambda: journal('free'), name='free')
`,
  perl: `
use Spoold::Tasks qw(task);
task 'few', max_retries => 5, max_concurrency => 2, sub {
  my ($go) = @_;
  journal('begin');
  select(undef, undef, undef, 0.01) until -e $go;
  journal('end');
};
task 'free', sub { journal('free') };
`,
  ruby: `
require 'spoold'
Spoold.task('few', max_retries: 5, max_concurrency: 2) do |go|
  journal('begin')
  sleep 0.01 until File.exist?(go)
  journal('end')
end
Spoold.task('free') { journal('free') }
`,
} as const

/** Wrong definitions of a task, and what the start of the daemon says of each. */
const WRONG = {
  python: [
    [
      "tasks.add(len, name='x', max_concurrency=2, max_retries=0)",
      /max_concurrency needs a positive max_retries/,
    ],
    ["tasks.add(len, name='x', max_concurrency=0)", /max_concurrency: expected a whole number from 1, got 0/],
  ],
  perl: [
    ["task 'x', max_concurrency => 2, sub {};", /max_concurrency needs a positive max_retries/],
    ["task 'x', max_concurrency => 0, max_retries => 1, sub {};", /a whole number from 1, got 0/],
  ],
  ruby: [
    ["Spoold.task('x', max_concurrency: 2) {}", /max_concurrency needs a positive max_retries/],
    ["Spoold.task('x', max_concurrency: 0, max_retries: 1) {}", /a whole number from 1, got 0/],
  ],
} as const

for (const [language, handler] of Object.entries(MODULES) as Array<[keyof typeof MODULES, string]>)
  describe(`slots of named tasks in ${language}`, {
    skip: skipUnless(language === 'python' ? 'python3' : language),
  }, () => {
    it('let max_concurrency runs go on at a time, whatever the number of interpreters', async () => {
      const spool = spoolDirectory()
      const go = join(dirname(spool), 'go')
      for (let n = 0; n < 9; n++) drop(spool, undefined, packet({ task: 'few', args: JSON.stringify([go]) }))
      for (let n = 0; n < 5; n++) drop(spool, undefined, packet({ task: 'free', args: '[]' }))
      const daemon = await startHost(language, { spool, handler, ini: { 'spooler-processes': 4 } })
      const count = (line: string) => daemon.journal().filter(each => each === line).length
      await until(
        'two tasks run, and the tasks without a limit have run',
        () => count('begin') >= 2 && count('free') === 5,
      )
      assert.deepEqual([count('begin'), count('end')], [2, 0])
      writeFileSync(go, '')
      await until('all tasks have run', () => leftIn(spool).length === 0)
      assert.deepEqual([count('begin'), count('end')], [9, 9])
    })

    for (const [wrong, message] of WRONG[language])
      it(`are refused at the start as ${wrong}`, async () => {
        const daemon = await startHost(language, {
          spool: spoolDirectory(),
          handler: `${handler}${wrong}\n`,
          isUnready: true,
        })
        assert.equal((await daemon.exited).code, 1)
        assert.match(daemon.output, message)
      })
  })
