import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { Canaries, giveAway, USER } from '../helpers/canaries.js'
import { startDaemon } from '../helpers/daemon.js'
import { exchangeNames } from '../helpers/exchanger.js'
import { drop, leftIn } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { PYTHON } from '../helpers/python.js'
import { isLong, type Requirement, skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, ROOT, spoolDirectory, workspace } from '../helpers/workspace.js'
import { PYTHON_LIBRARY } from '../hosts/named-host.js'

const LASTS_MS = isLong ? 20_000 : 800
const INDEX = import.meta.resolve('#src/index.js')
const EXAMPLES = join(ROOT, 'spool-examples/enqueue')

/**
 * Programs that store tasks as root. Their arguments are the spool, for how many milliseconds they store (at least once), and
 * what they store. They print how much was stored, and the errors of the rest.
 */
interface Writer {
  readonly language: string
  readonly needs: readonly Requirement[]
  readonly command: readonly [string, ...string[]]
  readonly env?: NodeJS.ProcessEnv
  readonly script: string
  /** Tasks that it stores each time, in the spool and in the priority 7. */
  readonly stores: readonly [top: number, priority: number]
  /** True if it creates a missing spool. */
  readonly makes?: boolean
  readonly hasIds?: boolean
}

const WRITERS: readonly Writer[] = [
  {
    language: 'JavaScript',
    needs: [],
    command: [process.execPath],
    script: `
import { Batch, enqueue, spool, spoolSync } from ${JSON.stringify(INDEX)}
const [, , spooler, lasts, what] = process.argv
const [end, refused] = [performance.now() + Number(lasts), new Set()]
let stored = 0
const store = async (count, act) => {
  try { await act(); stored += count } catch (error) { refused.add(error.results?.[0]?.error.message ?? error.message) }
}
if (what === 'id') await store(1, () => enqueue({ a: 'b' }, { spooler, id: 'x' }))
else do {
  await store(1, () => spoolSync({ a: 'b' }, { spooler, sync: false }))
  await store(1, () => spoolSync({ a: 'b' }, { spooler, at: 1_700_000_000 }))
  await store(1, () => spool({ a: 'b' }, { spooler, priority: 7 }))
  await store(1, async () => {
    const batch = new Batch({ spooler, sync: false })
    for (let i = 0; i < (what === 'many' ? 6000 : 3); i++) batch.add({ a: 'b' })
    await batch.spool()
  })
} while (performance.now() < end)
console.log(JSON.stringify({ stored, refused: [...refused] }))
`,
    stores: [5, 1],
    makes: true,
    hasIds: true,
  },
  {
    language: 'Python',
    needs: ['python3'],
    command: [PYTHON, '-B'],
    env: { PYTHONPATH: PYTHON_LIBRARY },
    script: `
import json, sys, time
from spoold import Batch, Tasks
spooler, lasts, what = sys.argv[1:4]
end, stored, refused = time.monotonic() + int(lasts) / 1000, 0, set()
tasks = Tasks(spooler=spooler)
@tasks.task(name='x')
def x(a): pass
while True:
    try:
        if what == 'id':
            tasks.with_options(id='x').schedule(x, 1)
        else:
            tasks.schedule(x, 1)
            batch = Batch()
            batch.schedule(x, 1)
            batch.schedule(x, 2)
            tasks.schedule_batch(batch)
        stored += 1
    except Exception as error:
        refused.add(str(error))
    if time.monotonic() >= end: break
print(json.dumps({ 'stored': stored, 'refused': list(refused) }))
`,
    stores: [3, 0],
    hasIds: true,
  },
  {
    language: 'Ruby',
    needs: ['ruby'],
    command: ['ruby'],
    script: `
require 'json'
require ${JSON.stringify(join(EXAMPLES, 'ruby/spool'))}
spooler, lasts = ARGV
end_at, stored, refused = Process.clock_gettime(Process::CLOCK_MONOTONIC) + lasts.to_i / 1000.0, 0, {}
loop do
  begin
    Spool.spool({ a: 'b' }, spooler, at: 1_700_000_000)
    Spool.spool({ a: 'b' }, spooler, priority: 7)
    stored += 1
  rescue SystemCallError => e
    refused[e.message] = true
  end
  break if Process.clock_gettime(Process::CLOCK_MONOTONIC) >= end_at
end
puts JSON.generate({ stored: stored, refused: refused.keys })
`,
    stores: [1, 1],
  },
  {
    language: 'Perl',
    needs: ['perl'],
    command: ['perl', '-I', join(EXAMPLES, 'perl')],
    script: `
use strict; use warnings; use JSON::PP; use Time::HiRes qw(time); use Spool;
my ($spooler, $lasts) = @ARGV;
my ($end, $stored, %refused) = (time + $lasts / 1000, 0);
do {
    eval {
        Spool::spool({ a => 'b' }, $spooler, at => 1_700_000_000);
        Spool::spool({ a => 'b' }, $spooler, priority => 7);
        $stored++;
        1;
    } or $refused{$@} = 1;
} while (time < $end);
print encode_json({ stored => $stored, refused => [keys %refused] }), "\\n";
`,
    stores: [1, 1],
  },
  {
    language: 'spoold enqueue',
    needs: [],
    command: [process.execPath],
    script: `
import { spawnSync } from 'node:child_process'
const [, , spooler, lasts, what] = process.argv
const [end, refused] = [performance.now() + Number(lasts), new Set()]
let stored = 0
do
  for (const more of what === 'id' ? [['--id', 'x']] : [[], ['--priority', '7']]) {
    const args = [${JSON.stringify(BIN)}, 'enqueue', '--spooler', spooler, ...more, 'a=b']
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    if (status === 0) stored++
    else refused.add(stderr)
  }
while (performance.now() < end)
console.log(JSON.stringify({ stored, refused: [...refused] }))
`,
    stores: [1, 1],
    makes: true,
    hasIds: true,
  },
]

interface Outcome {
  readonly stored: number
  readonly refused: readonly string[]
}

describe('a writer that root runs', { skip: skipUnless('root') }, () => {
  async function run(writer: Writer, spool: string, lastsMs: number, what = ''): Promise<Outcome> {
    const [program, ...args] = writer.command
    const script = join(workspace(), 'writer.mjs')
    writeFileSync(script, writer.script)
    const child = new TestProcess(program, [...args, script, spool, String(lastsMs), what], {
      env: writer.env ?? {},
    })
    assert.equal((await child.exited).code, 0, child.output)
    return JSON.parse(child.output.trim().split('\n').at(-1) ?? '')
  }

  /** A directory of the user, in which the user's spool is. */
  function theirs(): string {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    giveAway(dirname(spool))
    return spool
  }

  const ownersIn = (directory: string) => [
    ...new Set(
      ['.', ...readdirSync(directory, { recursive: true }).map(String)]
        .filter(name => !name.startsWith('.spoold'))
        .map(name => lstatSync(join(directory, name)).uid),
    ),
  ]

  const each = (title: string, test: (writer: Writer) => Promise<void>, writers = WRITERS) =>
    describe(title, () => {
      for (const writer of writers)
        it(writer.language, { skip: skipUnless(...writer.needs) }, () => test(writer))
    })

  each(
    'gives the tasks, and the priority directory that it creates, to the owner of the spool',
    async writer => {
      const spool = theirs()
      const { stored, refused } = await run(writer, spool, 0)
      assert.deepEqual(refused, [])
      assert.ok(stored > 0)
      const [top, priority] = writer.stores
      const names = leftIn(spool)
      assert.deepEqual(
        [
          names.filter(name => !name.includes('/')).length,
          names.filter(name => name.startsWith('7/')).length,
        ],
        [top, priority],
      )
      assert.deepEqual(ownersIn(spool), [USER])
    },
  )

  it('stores tasks that the daemon of the owner runs, in every language', async () => {
    const spool = theirs()
    const writers = WRITERS.filter(({ needs }) => skipUnless(...needs) === false)
    for (const writer of writers) await run(writer, spool, 0)
    const daemon = await startDaemon({ spool, ini: { uid: USER, gid: USER, 'spooler-ordered': true } })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    const stored = writers.reduce((sum, { stores: [top, priority] }) => sum + top + priority, 0)
    assert.equal(daemon.journal().length, stored)
  })

  it('gives the owner of the spool each task of a large batch', async () => {
    const spool = theirs()
    const [writer] = WRITERS
    assert.ok(writer !== undefined)
    assert.deepEqual((await run(writer, spool, 0, 'many')).refused, [])
    assert.equal(leftIn(spool).length, 6003)
    assert.deepEqual(ownersIn(spool), [USER])
  })

  each('gives the tasks to the owner of .spoold, if root owns the spool directory', async writer => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o755)
    chownSync(spool, 0, USER)
    chmodSync(spool, 0o2770)
    mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
    chownSync(join(spool, '.spoold'), USER, USER)
    assert.deepEqual((await run(writer, spool, 0)).refused, [])
    assert.deepEqual(new Set(leftIn(spool).map(name => lstatSync(join(spool, name)).uid)), new Set([USER]))
  })

  each('gives the tasks to root in a spool of root', async writer => {
    const spool = spoolDirectory()
    assert.deepEqual((await run(writer, spool, 0)).refused, [])
    assert.deepEqual(ownersIn(spool), [0])
  })

  each('follows a symbolic link of root, but none of another user, and says what to do', async writer => {
    const spool = theirs()
    const link = join(workspace(), 'link')
    chmodSync(dirname(link), 0o755)
    symlinkSync(spool, link)
    assert.deepEqual((await run(writer, link, 0)).refused, [])
    const outside = new Canaries(join(workspace(), 'outside'))
    const trap = join(dirname(spool), 'trap')
    symlinkSync(outside.path, trap)
    lchownSync(trap, USER, USER)
    const { stored, refused } = await run(writer, trap, 0)
    assert.equal(stored, 0)
    for (const message of refused)
      assert.match(
        message,
        /root (?:stores|does) nothing in .*: it is reached through a link of uid 65534.*; (?:run this as the user of its daemon|say for whom root acts, with --as USER)/,
      )
    outside.assertUntouched(writer.language)
  })

  each(
    'stores nothing if others can exchange the spool, because they may write to its parent',
    async writer => {
      const home = workspace()
      const spool = join(home, 'spool')
      mkdirSync(spool)
      chmodSync(home, 0o777)
      const { stored, refused } = await run(writer, spool, 0)
      assert.equal(stored, 0)
      for (const message of refused) assert.match(message, /others can exchange it, because they may write/)
      assert.deepEqual(readdirSync(spool), [])
    },
  )

  each(
    'neither uses nor gives away a priority directory of root',
    async writer => {
      const spool = theirs()
      mkdirSync(join(spool, '7'), { mode: 0o755 })
      writeFileSync(join(spool, '7/mine'), '')
      const { refused } = await run(writer, spool, 0)
      assert.match(refused.join(), /7 belongs to uid 0, and root stores for uid 65534: run this as|EACCES/)
      assert.deepEqual(readdirSync(join(spool, '7')), ['mine'])
      assert.equal(lstatSync(join(spool, '7')).uid, 0)
    },
    WRITERS.filter(({ stores: [, priority] }) => priority > 0),
  )

  each(
    'creates a missing spool for the owner of its parent directory, or says that it is missing',
    async writer => {
      const spool = join(dirname(theirs()), 'missing')
      const { stored, refused } = await run(writer, spool, 0)
      if (writer.makes === true) {
        assert.deepEqual(refused, [])
        assert.deepEqual(ownersIn(spool), [USER])
        return
      }
      assert.equal(stored, 0)
      assert.match(refused.join(), /missing/)
      assert.deepEqual(readdirSync(dirname(spool)), ['spool'])
    },
  )

  each(
    'stores a task with an id for the owner of the spool, or says who can store it',
    async writer => {
      const spool = theirs()
      const { stored, refused } = await run(writer, spool, 0, 'id')
      if (writer.language === 'spoold enqueue') assert.deepEqual([stored, ownersIn(spool)], [1, [USER]])
      else {
        assert.equal(stored, 0)
        assert.match(
          refused.join(),
          /root stores no task with an id in .*: run this as uid 65534, or call spoold enqueue$/,
        )
        assert.deepEqual(readdirSync(spool), [])
      }
    },
    WRITERS.filter(({ hasIds }) => hasIds === true),
  )

  each(
    'changes nothing outside while the owner swaps the spool and a priority for symbolic links',
    async writer => {
      const spool = theirs()
      const outside = new Canaries(join(workspace(), 'outside'))
      chmodSync(dirname(outside.path), 0o755)
      const [link, priority] = [join(dirname(spool), '.link'), join(spool, '.priority')]
      mkdirSync(join(spool, '7'))
      drop(spool)
      giveAway(spool)
      symlinkSync(outside.path, link)
      symlinkSync(join(outside.path, '7'), priority)
      for (const each of [link, priority]) lchownSync(each, USER, USER)
      const exchanger = await exchangeNames(USER, [
        [spool, link],
        [join(spool, '7'), priority],
      ])
      const { refused } = await run(writer, spool, LASTS_MS)
      exchanger.child.kill('SIGKILL')
      await exchanger.exited
      assert.ok(refused.length > 0, 'the writer has met the link in the place of the spool')
      outside.assertUntouched(writer.language)
      const held = lstatSync(spool).isSymbolicLink() ? link : spool
      const files = leftIn(held).map(name => lstatSync(join(held, name)).uid)
      assert.ok(files.length > 1, 'tasks were stored')
      assert.deepEqual([...new Set(files)], [USER])
    },
  )
})
