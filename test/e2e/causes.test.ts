import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from '../hosts/host-daemon.js'

/** Throws what its name in the key `how` says. */
const HANDLER = `
import vm from 'node:vm'
import { createServer } from 'node:net'
import { AbortTask } from 'spoold'
const cyclic = new Error('round'); cyclic.cause = cyclic
const guarded = new Error('guarded'); Object.defineProperty(guarded, 'cause', { get() { throw new Error('never') } })
const refused = async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const { port } = server.address()
  await new Promise(resolve => server.close(resolve))
  return fetch('http://127.0.0.1:' + port)
}
const HOW = {
  nestedCauses: () => { throw new Error('Failed query', { cause: new Error('deadlock detected', { cause: 'the disk' }) }) },
  refusedFetch: refused,
  aggregateError: () => Promise.any([Promise.reject(new Error('one')), Promise.reject(new TypeError('two'))]),
  cyclicCause: () => { throw cyclic },
  throwingCause: () => { throw guarded },
  plainObject: () => { throw { status: 402, message: 'card declined' } },
  otherRealm: () => vm.runInNewContext('throw new TypeError("of another realm")'),
  abortTask: () => { throw new AbortTask(new Error('no such customer')) },
  thrownString: () => { throw 'only text' },
  long: () => { throw new Error('x'.repeat(5_000_000)) },
}
export default env => HOW[env.how]()
`

const longest = (text: string) => Math.max(...text.split('\n').map(line => line.length))

const NAME = 'uwsgi_spoolfile_on_'

describe('the explanation of a failure', () => {
  async function told(how: string) {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: HANDLER, ini: { 'spooler-frequency': 3600 } })
    drop(spool, `${NAME}${how}`, packet({ how }))
    return until(`${how} has failed:\n${daemon.output.slice(-5000)}`, async () => {
      const { stdout } = await inProcess(['ls', spool, '--state', 'retrying,dead', '--json'])
      const task = stdout
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line) as { name: string; lastError?: string; detail?: string })
        .find(({ name, lastError, detail }) => name.endsWith(how) && (lastError ?? detail) !== undefined)
      if (task === undefined) return undefined
      const { stdout: rows } = await inProcess(['ls', spool, '--state', 'retrying,dead'])
      const shown = await inProcess(['show', join(spool, task.name)])
      return {
        daemon,
        row: rows.split('\n').find(row => row.includes(`${NAME}${how}`)) ?? '',
        shown: shown.stdout,
        events: (await inProcess(['logs', spool])).stdout,
      }
    })
  }

  const TOLD: Readonly<Record<string, readonly [row: RegExp, log: RegExp]>> = {
    nestedCauses: [
      /Failed query: deadlock detected: the disk/,
      /\[cause\]: Error: deadlock detected[\s\S]*\[cause\]: .*the disk/,
    ],
    refusedFetch: [
      /fetch failed: connect ECONNREFUSED 127\.0\.0\.1/,
      /\[cause\]: Error: connect ECONNREFUSED/,
    ],
    aggregateError: [
      /All promises were rejected: one: TypeError: two/,
      /\[cause\]: Error: one[\s\S]*\[cause\]: TypeError: two/,
    ],
    cyclicCause: [/Error: round\s*$/, /Error: round/],
    throwingCause: [/Error: guarded/, /Error: guarded/],
    plainObject: [/\{ status: 402, message: 'card/, /card declined/],
    otherRealm: [/TypeError: of another realm/, /TypeError: of another realm/],
    abortTask: [/no such customer/, /no such customer/],
    thrownString: [/only text/, /only text/],
  }
  for (const [how, [row, log]] of Object.entries(TOLD))
    it(`is in the log, in ls and in show: ${how}`, async () => {
      const said = await told(how)
      assert.match(said.row, row)
      assert.match(said.shown, log)
      await said.daemon.waitFor(log)
      assert.doesNotMatch(said.shown, /dist\/(chunks|worker)/)
    })

  it('is cut to one limit in the log, in show and in logs when the message has 5 MB', async () => {
    const { shown, daemon, events } = await told('long')
    assert.ok(longest(shown) < 70_000, String(longest(shown)))
    await daemon.waitFor(/\(49\d{5} more characters\)/)
    assert.ok(longest(daemon.output) < 70_000, String(longest(daemon.output)))
    assert.match(events, /failed, runs again in .*: Error: xxx/)
    assert.ok(longest(events) < 70_000, String(longest(events)))
  })

  it('is listed for Python, for a message of 5 MB, a deep call stack and an exception group', {
    skip: skipUnless('python3'),
  }, async () => {
    const own = spoolDirectory()
    const handler = `import spoold
tasks = spoold.Tasks()
def deeper(n):
    return deepest(n - 1) if n else int('x')
def deepest(n):
    return deeper(n)
def chain(text):
    try:
        raise KeyError(text)
    except KeyError as error:
        raise RuntimeError('cannot be booked') from error
@tasks.task(name='deep', max_retries=1)
def deep(): deeper(150)
@tasks.task(name='chain', max_retries=1)
def named(): chain('x' * 20000)
def spooler(env):
    if env[b'how'] == b'chain': chain('x' * 5000000)
    raise ExceptionGroup('many', [ValueError('one'), KeyError('two')])
uwsgi.spooler = spooler`
    const python = await startHost('python', { spool: own, handler, ini: { 'spooler-frequency': 3600 } })
    for (const how of ['chain', 'group']) drop(own, `${NAME}${how}`, packet({ how }))
    for (const task of ['deep', 'chain'])
      drop(own, `${NAME}named_${task}`, packet({ task, args: '[]', kwargs: '{}' }))
    const rows = await until('all tasks have failed', async () => {
      const { stdout } = await inProcess(['ls', own, '--state', 'retrying'])
      return stdout.split('\n').length === 6 ? stdout : undefined
    })
    for (const [how, line] of [
      ['chain', 'RuntimeError: cannot be booked'],
      ['group', "ExceptionGroup: many (2 sub-exceptions): ValueError: one: KeyError: 'two'"],
      ['named_deep', "ValueError: invalid literal for int() with base 10: 'x'"],
      ['named_chain', 'RuntimeError: cannot be booked'],
    ] as const) {
      const row = rows.split('\n').find(each => each.includes(`${NAME}${how} `)) ?? ''
      assert.ok(row.includes(line.slice(0, 70)), row)
    }
    assert.ok(longest(python.output) < 70_000, String(longest(python.output)))
  })

  it('is cut to that limit for errors outside a task: while a file loads, and after a task has ended', async () => {
    const spool = spoolDirectory()
    const late = `export default (_, task) => {
  setTimeout(() => { throw new Error('y'.repeat(5_000_000), { cause: new Error('deadlock') }) }, 50)
  return task.SPOOL_OK
}`
    const daemon = await startDaemon({ spool, handler: late })
    drop(spool, `${NAME}late`)
    await daemon.waitFor(/uncaught exception[\s\S]*\[cause\]: Error: deadlock/)
    daemon.child.kill('SIGTERM')
    await daemon.exited
    const load = `throw new Error('z'.repeat(5_000_000), { cause: new Error('deadlock') })`
    const unloadable = await startDaemon({ spool, handler: load, isUnready: true })
    await unloadable.waitFor(/HANDLER_UNLOADABLE[\s\S]*\[cause\]: Error: deadlock/)
    for (const { output } of [daemon, unloadable])
      assert.ok(longest(output) < 70_000, String(longest(output)))
  })

  it('is cut to that limit when a Python file throws while it loads', {
    skip: skipUnless('python3'),
  }, async () => {
    const handler = `raise ValueError('z' * 5000000)`
    const python = await startHost('python', { spool: spoolDirectory(), handler, isUnready: true })
    await python.waitFor(/HANDLER_UNLOADABLE\] Traceback[\s\S]*ValueError: z/)
    assert.ok(longest(python.output) < 70_000, String(longest(python.output)))
  })

  it('includes the cause of a Ruby exception', { skip: skipUnless('ruby') }, async () => {
    const own = spoolDirectory()
    const handler = `module UWSGI
  def self.spooler(env)
    begin
      Integer('x')
    rescue ArgumentError
      raise 'cannot be booked'
    end
  end
end`
    const ruby = await startHost('ruby', { spool: own, handler })
    drop(own, `${NAME}x`)
    await ruby.waitFor(/cannot be booked \(RuntimeError\)[\s\S]*\[cause\]: .*invalid value for Integer/)
    assert.equal(readdirSync(own).includes(`${NAME}x`), true)
    ruby.child.kill('SIGTERM')
    await ruby.exited
  })

  it('is logged for Perl whatever a handler dies with: a hash, a list, an object with or without a message', {
    skip: skipUnless('perl'),
  }, async () => {
    const own = spoolDirectory()
    const handler = `package Refused { sub new { bless { status => 402 } } sub message { 'card declined' } }
package Mute { sub new { bless { status => 402, more => undef } } }
my %died = (hash => { code => 5, list => 'x' }, list => [1, 'two'], object => Refused->new, mute => Mute->new);
uwsgi::spooler(sub { die $died{$_[0]{how}} });`
    const perl = await startHost('perl', { spool: own, handler })
    for (const how of ['hash', 'list', 'object', 'mute']) drop(own, `${NAME}${how}`, packet({ how }))
    for (const text of [
      '{ code => 5, list => x }',
      '[1, two]',
      'Refused: card declined',
      'Mute { more => undef, status => 402 }',
    ])
      await until(text, () => perl.output.includes(text))
  })
})
