import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost, writeHandler } from './host-daemon.js'

describe('the Perl host, where uWSGI has faults', { skip: skipUnless('perl') }, () => {
  it('gives the name of the task under its key, and empty values as they are', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_a', packet({ empty: '', next: 'x', last: '' }))
    const daemon = await startHost('perl', {
      spool,
      handler:
        'uwsgi::spooler(sub { my ($e) = @_; journal(join " ", map { "$_=<$e->{$_}>" } sort keys %$e); -2 })',
    })
    await until('the task has run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['empty=<> last=<> next=<x> spooler_task_name=<uwsgi_spoolfile_on_a>'])
  })

  it('outlives a signal function that dies, and a handler that leaves by next', async () => {
    const spool = spoolDirectory()
    drop(spool, 'uwsgi_spoolfile_on_a', packet({ a: 'signal' }))
    drop(spool, 'uwsgi_spoolfile_on_b', packet({ a: 'next' }))
    const daemon = await startHost('perl', {
      spool,
      handler: `
no warnings;
uwsgi::register_signal(5, 'spooler', sub { die "of a signal\\n" });
uwsgi::spooler(sub { my ($e) = @_; journal($$); next if $e->{a} eq 'next'; uwsgi::signal(5); -2 });`,
    })
    await daemon.waitFor(/of a signal/)
    await daemon.waitFor(/on_b .*the spooler function was left by next or last/)
    assert.equal(new Set(daemon.journal()).size, 1)
  })

  it('says in the error of spool why a task is not stored', async () => {
    const spool = spoolDirectory()
    drop(spool)
    const daemon = await startHost('perl', {
      spool,
      handler: `
uwsgi::spooler(sub {
    for my $wrong ({ k => 'v' x 70000 }, { spooler => '/nowhere', k => 1 }, { priority => '../x', k => 1 }) {
        eval { uwsgi::spool($wrong) }; journal($@ =~ s/\\n//r);
    }
    -2;
})`,
    })
    await until('the task has run', () => daemon.journal().length === 3)
    const [long = '', nowhere = '', priority = ''] = daemon.journal()
    assert.match(long, /"k" takes 70000 bytes.* at .*tasks\.pl line \d+/)
    assert.match(nowhere, /\/nowhere/)
    assert.match(priority, /priority/)
  })
})

describe('the Ruby host, where uWSGI has faults', { skip: skipUnless('ruby') }, () => {
  it('outlives answers of more than 32 bits, and exceptions without a message', async () => {
    const spool = spoolDirectory()
    for (const a of ['large', 'mute', 'odd']) drop(spool, `uwsgi_spoolfile_on_${a}`, packet({ a }))
    const daemon = await startHost('ruby', {
      spool,
      handler: `
class Mute < StandardError
  def message() raise self end
end
class Odd < BasicObject
end
def UWSGI.spooler(env)
  journal($$.to_s)
  raise Mute if env['a'] == 'mute'
  env['a'] == 'odd' ? Odd.new : 2**40 - 2
end`,
    })
    await daemon.waitFor(/on_large .*UWSGI.spooler returned 1099511627774; expected UWSGI::SPOOL_OK/)
    await daemon.waitFor(/on_mute .*its message is not available \(Mute\)/)
    await daemon.waitFor(/on_odd .*Odd/)
    assert.equal(new Set(daemon.journal()).size, 1)
  })
})

describe('code of Perl and Ruby', () => {
  for (const [language, name] of [
    ['perl', 'Perl'],
    ['ruby', 'Ruby'],
  ] as const)
    it(`fails the start if it registers nothing, in ${name}`, {
      skip: skipUnless(language),
    }, async () => {
      const daemon = await startHost(language, { spool: spoolDirectory(), handler: '1;', isUnready: true })
      assert.equal(await daemon.code(), 1)
      assert.match(daemon.output, new RegExp(`${name} code registered no handler: it leaves all tasks alone`))
    })
})

describe('the code that Perl loads', { skip: skipUnless('perl') }, () => {
  it('runs in the order perl-exec, perl-exec-post-fork, hook, with its file in $0', async () => {
    const spool = spoolDirectory()
    writeHandler(spool, 'perl', 'our @seen = $0; uwsgi::postfork(sub { push @seen, "hook" })', 'first')
    writeHandler(spool, 'perl', 'push our @seen, $0; uwsgi::spooler(sub { journal("@seen"); -2 })', 'last')
    drop(spool)
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { 'perl-exec-post-fork': 'last.pl', 'perl-exec': 'first.pl' },
    })
    await until('the task has run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['first.pl last.pl hook'])
  })
})

describe('the code that Ruby loads', { skip: skipUnless('ruby') }, () => {
  it('is found in rb-lib, by a path and beside the ini, and runs after shared-rbrequire and before the hook', async () => {
    const spool = spoolDirectory()
    const directory = dirname(spool)
    mkdirSync(join(directory, 'lib/deep'), { recursive: true })
    const seen = (what: string) => `($seen ||= []) << '${what}'\n`
    writeFileSync(join(directory, 'lib/deep/name.rb'), seen('name'))
    writeFileSync(join(directory, 'path.rb'), seen('path'))
    writeFileSync(join(directory, 'bare.rb'), seen('bare'))
    const source = `${seen('shared')}
def UWSGI.post_fork_hook() $seen << 'hook' end
def UWSGI.spooler(env) journal($seen.join(' ') + JSON.generate([])); -2 end`
    const shared = writeHandler(spool, 'ruby', source)
    drop(spool)
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: {
        rbrequire: ['deep/name', './path', 'bare.rb', 'json'],
        'rb-lib': 'lib',
        'shared-rbrequire': shared,
      },
    })
    await until('the task has run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['shared name path bare hook[]'])
  })

  it('may include UWSGI, whose lock lets one worker at a time on', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 20; i++) drop(spool)
    const daemon = await startHost('ruby', {
      spool,
      handler: `
include UWSGI
def UWSGI.spooler(env)
  lock
  journal("in #{Process.pid}")
  sleep 0.02
  journal("out #{Process.pid}")
  unlock
  SPOOL_OK
end`,
      ini: { 'spooler-processes': 2 },
    })
    const pids = () => daemon.journal().map(line => line.split(' ')[1])
    await until('both processes have run tasks, and nothing is left', () => {
      if (leftIn(spool).length > 0) return false
      if (new Set(pids()).size < 2) for (let i = 0; i < 20; i++) drop(spool)
      return leftIn(spool).length === 0
    })
    const all = pids()
    assert.ok(all.length >= 40)
    for (let i = 0; i < all.length; i += 2) assert.equal(all[i], all[i + 1])
  })
})

describe('Perl and Ruby in one ini', { skip: skipUnless('perl', 'ruby') }, () => {
  it('are asked in this order, even if spooler-import names Ruby first', async () => {
    const spool = spoolDirectory()
    const perl = writeHandler(
      spool,
      'perl',
      'uwsgi::spooler(sub { journal("perl $_[0]{a}"); $_[0]{a} eq "perl" ? -2 : $_[0]{a} eq "undef" ? undef : 0 })',
    )
    const ruby = writeHandler(spool, 'ruby', `def UWSGI.spooler(env) journal("ruby #{env['a']}"); -2 end`)
    for (const a of ['perl', 'ruby', 'undef']) drop(spool, `uwsgi_spoolfile_on_${a}`, packet({ a }))
    const daemon = await startDaemon({
      spool,
      isForeign: true,
      ini: { 'spooler-import': [ruby, perl], 'spooler-ordered': true },
    })
    await until('all tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['perl perl', 'perl ruby', 'ruby ruby', 'perl undef', 'ruby undef'])
  })
})

describe('a handler that has made the descriptors of its interpreter non-blocking', {
  skip: skipUnless('python3', 'perl', 'ruby'),
}, () => {
  const HANDLERS = {
    python: `
def spooler(env):
    if b'big' in env:
        journal('stored')
        return uwsgi.SPOOL_OK
    for fd in (3, 4): os.set_blocking(fd, False)
    uwsgi.spool({b'big': b'yes', b'body': b'x' * 16_000_000})
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
    perl: `
use IO::Handle;
my @fds = map { open(my $fd, '+<&=', $_) or die; $fd } 3, 4;
uwsgi::spooler(sub {
    my ($env) = @_;
    if (exists $env->{big}) { journal('stored'); return -2 }
    $_->blocking(0) for @fds;
    uwsgi::spool({ big => 'yes', body => 'x' x 16_000_000 });
    return -2;
});`,
    ruby: `
require 'io/nonblock'
FDS = [3, 4].map { |fd| IO.for_fd(fd, 'r+b', autoclose: false) }
def UWSGI.spooler(env)
  if env['big']
    journal('stored')
    return UWSGI::SPOOL_OK
  end
  FDS.each { |fd| fd.nonblock = true }
  UWSGI.spool('big' => 'yes', 'body' => 'x' * 16_000_000)
  UWSGI::SPOOL_OK
end`,
  } as const
  for (const language of ['python', 'perl', 'ruby'] as const)
    it(`stores 16 MB and runs on, in ${language}`, async () => {
      const spool = spoolDirectory()
      drop(spool)
      const daemon = await startHost(language, { spool, handler: HANDLERS[language] })
      await until('both tasks have ended', () => leftIn(spool).length === 0)
      assert.deepEqual(daemon.journal(), ['stored'])
      assert.doesNotMatch(daemon.output, /EAGAIN|temporarily unavailable|died/)
    })
})

// Node 20 pads the names of abstract sockets, so a daemon cannot be found there: the handler listens at one as uWSGI does
describe('a signal to an abstract socket', { skip: skipUnless('python3', 'ruby') }, () => {
  const HANDLERS = {
    python: (name: string) => `
import fcntl, socket, termios, threading
def accept(server):
    peer = server.accept()[0]
    journal('%d' % peer.recv(4)[3])
    peer.sendall(bytes((110, 0)))
    while any(fcntl.ioctl(peer, termios.TIOCOUTQ, bytes(4))): pass # until the first piece has been read
    peer.sendall(bytes((0, 1)))
def spooler(env):
    server = socket.socket(socket.AF_UNIX)
    server.bind('\\0${name}\\0')
    server.listen()
    threading.Thread(target=accept, args=(server,)).start()
    uwsgi.signal(5, '@${name}')
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`,
    ruby: (name: string) => `
require 'socket'
def UWSGI.spooler(env)
  server = UNIXServer.new("\\0${name}\\0")
  Thread.new { peer = server.accept; journal(peer.read(4).bytes[3].to_s); peer.write([110, 0, 0, 1].pack('C4')) }
  UWSGI.signal(5, '@${name}')
  UWSGI::SPOOL_OK
end`,
  } as const
  for (const language of ['python', 'ruby'] as const)
    it(`arrives from ${language}`, async () => {
      const spool = spoolDirectory()
      drop(spool)
      const handler = HANDLERS[language](`spoold-test-${process.pid}-${language}`)
      const daemon = await startHost(language, { spool, handler })
      await until('the task has ended', () => leftIn(spool).length === 0)
      assert.deepEqual(daemon.journal(), ['5'])
    })
})
