import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { readLocks } from '#src/system/files/lock-table.js'
import type { Daemon, DaemonSetup } from '../helpers/daemon.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn } from '../helpers/files.js'
import { printedBetween } from '../helpers/printed.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { hostsOf, type Language, startHost } from './host-daemon.js'

const TASKS = process.env.SPOOLD_TEST_LONG === undefined ? 1000 : 6000
/** Programs take the longest, above all on a busy machine. */
const LIMIT_MS = Math.max(120_000, TASKS * 100)
const names = Array.from({ length: TASKS }, (_, i) => `t${i}`)

/** Print in every way that there is; in every tenth task a child prints too. */
const HANDLERS: Readonly<Record<Language, string>> = {
  python: `
import subprocess
def spooler(env):
    name = env['spooler_task_name'].decode()
    print(name, 'print')
    sys.stderr.write(name + ' stderr\\n')
    os.write(1, (name + ' descriptor\\n').encode())
    if name.endswith('7'): subprocess.call(['echo', name, 'child'])
    print(name, 'no newline', end='')
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`,
  perl: `
uwsgi::spooler(sub {
    my $name = $_[0]{spooler_task_name};
    print "$name print\\n";
    print STDERR "$name stderr\\n";
    syswrite STDOUT, "$name descriptor\\n";
    system('echo', $name, 'child') if $name =~ /7$/;
    print "$name no newline";
    return uwsgi::SPOOL_OK;
});
`,
  ruby: `
module UWSGI
  module_function
  def spooler(env)
    name = env['spooler_task_name']
    puts "#{name} print"
    warn "#{name} stderr"
    $stdout.syswrite("#{name} descriptor\\n")
    system('echo', name, 'child') if name.end_with?('7')
    print "#{name} no newline"
    UWSGI::SPOOL_OK
  end
end
`,
}

async function logOf(setup: DaemonSetup, start: (setup: DaemonSetup) => Promise<Daemon>): Promise<string> {
  const log = join(dirname(setup.spool), 'log')
  for (const name of names) drop(setup.spool, name)
  const daemon = await start({ ...setup, ini: { logto: log, ...setup.ini }, isUnready: true })
  const isToldOf = () => readFileSync(log, 'utf8').split(' done with task ').length > TASKS
  await until('all tasks are done', () => leftIn(setup.spool).length === 0 && isToldOf(), LIMIT_MS)
  daemon.child.kill('SIGTERM')
  assert.equal(await daemon.code(), 0)
  return readFileSync(log, 'utf8')
}

function assertPrinted(log: string, expected: readonly string[]): void {
  const printed = printedBetween(log)
  assert.equal(printed.size, TASKS)
  for (const [name, lines] of printed)
    assert.deepEqual(
      lines,
      expected.filter(line => line !== 'child' || name.endsWith('7')),
      name,
    )
}

describe('what a handler prints stands whole between the lines of its task', () => {
  const all = ['print', 'stderr', 'descriptor', 'child', 'no newline']
  const variants: ReadonlyArray<readonly [string, Language, NodeJS.ProcessEnv]> = [
    ['Python', 'python', {}],
    ['Python, unbuffered', 'python', { PYTHONUNBUFFERED: '1' }],
    ['Perl', 'perl', {}],
    ['Ruby', 'ruby', {}],
  ]
  for (const [title, language, env] of variants)
    it(title, { skip: skipUnless(language === 'python' ? 'python3' : language) }, async () => {
      const setup = { spool: spoolDirectory(), handler: HANDLERS[language], env }
      assertPrinted(await logOf(setup, each => startHost(language, each)), all)
    })

  it('a program of spooler-exec', async () => {
    const command = 'echo $SPOOL_task_name out; echo $SPOOL_task_name err >&2; exit 0'
    const setup = { spool: spoolDirectory(), isForeign: true, ini: { 'spooler-exec': command } } as const
    const log = await logOf(setup, startDaemon)
    const bare = log.replaceAll(/^\[spooler \S+ pid: \d+\] (t\d+): /gm, '')
    const printed = printedBetween(bare)
    assert.equal(printed.size, TASKS)
    for (const [name, lines] of printed) assert.deepEqual([...lines].sort(), ['err', 'out'], name)
  })
})

describe('what a handler in Python prints', () => {
  const skip = skipUnless('python3')

  it('is logged while the task runs, and to the last half line when it dies', { skip }, async () => {
    const spool = spoolDirectory()
    const handler = `
import signal
print('while it is loaded')
def spooler(env):
    name = env['spooler_task_name'].decode()
    print(name, 'begins')
    os.write(2, b'half a line of ' + name.encode())
    while not os.path.exists(${JSON.stringify(join(dirname(spool), 'go'))}): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler, ini: { 'spooler-max-crashes': 1 } })
    await daemon.waitFor('while it is loaded')
    drop(spool, 'a')
    await daemon.waitFor(/managing request a \.\.\.\na begins\n/)
    drop(dirname(spool), 'go')
    await daemon.waitFor(/half a line of a\n/)
    await daemon.waitFor(/task a is buried/)
    assert.match(daemon.output, /a begins\n(\[spooler .*\n)*half a line of a\n/)
  })

  it('follows one line per run, and a task that is given back unbegun has no line', {
    skip,
  }, async () => {
    const spool = spoolDirectory()
    const handler = `
def spooler(env):
    print(env['spooler_task_name'].decode(), 'runs')
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler, env: { PYTHONUNBUFFERED: '1' } })
    const first = names.slice(0, 500) // fast tasks, so that it is sent several at a time
    for (const name of first) drop(spool, name)
    const untilDone = (count: number) =>
      until(`${count} are done`, () => daemon.output.split(' done with task ').length > count)
    await untilDone(first.length)
    const [host = 0] = hostsOf(daemon)
    const sent: string[] = []
    /** Sends a stopped interpreter some tasks. @returns false if they went back, which takes 50 ms, before the test looked */
    const isSeenSent = async (): Promise<boolean> => {
      process.kill(host, 'SIGSTOP')
      const dueSeconds = Math.ceil(Date.now() / 1000 + 1)
      const some = names.slice(first.length + sent.length).slice(0, 5)
      sent.push(...some)
      const paths = some.map(name => drop(spool, name, undefined, dueSeconds)) // all are due at the same time
      const held = () => {
        const locks = readLocks()
        return paths.filter(path => {
          const { dev, ino } = statSync(path)
          return locks.isHeld(dev, ino)
        }).length
      }
      const isSeen = await until('the interpreter has been sent some tasks', () => held() > 0, 4000).then(
        () => true,
        () => false,
      )
      if (isSeen) await until('the tasks are given back', () => held() === 0)
      process.kill(host, 'SIGCONT')
      await untilDone(first.length + sent.length)
      return isSeen
    }
    while (!(await isSeenSent()))
      assert.ok(sent.length < 100, 'the interpreter was seen with a task that it was sent')
    const lines = daemon.output.match(/managing request \S+|^\S+ runs$|done with task \S+/gm)
    const expected = [...first, ...sent].flatMap(name => [
      `managing request ${name}`,
      `${name} runs`,
      `done with task ${name}`,
    ])
    assert.deepEqual([...(lines ?? [])].sort(), expected.sort())
  })

  it('is logged before the failure of its task, and at the end of the interpreter too', {
    skip,
  }, async () => {
    const spool = spoolDirectory()
    const handler = `
import atexit
atexit.register(lambda: print('at the end'))
def spooler(env):
    name = env['spooler_task_name'].decode()
    print(name, 'fails', end='')
    raise ValueError(name)
uwsgi.spooler = spooler
`
    const failing = names.slice(0, 200)
    for (const name of failing) drop(spool, name)
    const daemon = await startHost('python', { spool, handler, ini: { 'spooler-frequency': 1000 } })
    await daemon.waitFor(/task t99 failed/)
    await until(
      'all tasks have failed',
      () => daemon.output.split(' failed, runs again ').length > failing.length,
    )
    for (const name of failing)
      assert.match(
        daemon.output,
        new RegExp(
          `managing request ${name} \\.\\.\\.\\n(?:.* is running .*\\n)?${name} fails\\n.* task ${name} failed`,
        ),
      )
    daemon.child.kill('SIGTERM')
    await daemon.code()
    assert.match(daemon.output, /^at the end$/m)
  })

  it('is logged whole, and the master stays below 200 MB, at 200,000 lines', { skip }, async () => {
    const spool = spoolDirectory()
    const log = join(dirname(spool), 'log')
    const handler = `
def spooler(env):
    for i in range(200000): print('x' * 99)
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', { spool, handler, ini: { logto: log }, isUnready: true })
    drop(spool, 'a')
    let most = 0
    await until(
      'the task is done',
      () => {
        const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8')) ?? []
        most = Math.max(most, Number(kilobytes))
        return existsSync(log) && readFileSync(log, 'utf8').includes('done with task a')
      },
      120_000,
    )
    assert.equal(
      readFileSync(log, 'utf8')
        .split('\n')
        .filter(line => line === 'x'.repeat(99)).length,
      200_000,
    )
    assert.ok(most < 200_000, `${most} kB`)
  })
})

it('what code prints while it is loaded is logged at once', { skip: skipUnless('python3') }, async () => {
  const handler = `
print('waits for the database\\nand for its ', end='', flush=True)
while not os.path.exists(os.path.join(os.path.dirname(__file__), 'gate')): time.sleep(.02)
print('tables')
uwsgi.spooler = lambda env: uwsgi.SPOOL_OK
`
  const daemon = await startHost('python', { spool: spoolDirectory(), handler, isUnready: true })
  await daemon.waitFor(/^waits for the database$/m)
  assert.doesNotMatch(daemon.output, /is running/)
  writeFileSync(join(daemon.directory, 'gate'), '')
  await daemon.waitFor('is running')
  assert.match(daemon.output, /^waits for the database\nand for its tables$/m)
})
