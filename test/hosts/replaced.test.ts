import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { drop, leftIn, packet } from '../helpers/files.js'
import { untilGone } from '../helpers/proc.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { type Language, startHost } from './host-daemon.js'

describe('an interpreter that is being replaced', { skip: skipUnless('python3') }, () => {
  it('gets no task while it loads, and another worker runs those that are due', async () => {
    const spool = spoolDirectory()
    const slow = join(dirname(spool), 'slow')
    const handler = `
journal('loading %d' % os.getpid())
while os.path.exists(${JSON.stringify(slow)}): time.sleep(0.02)
def spooler(env):
    journal('run %d' % os.getpid())
    if env.get(b'do') == b'die':
        time.sleep(0.2)
        open(${JSON.stringify(slow)}, 'w')
        os._exit(1)
    return -2
uwsgi.spooler = spooler
`
    const daemon = await startHost('python', {
      spool,
      handler,
      ini: {
        'spooler-processes': 2,
        'spooler-max-crashes': 1,
        'spooler-ordered': true,
        'spooler-frequency': 1,
      },
    })
    const loaded = () => daemon.journal().filter(line => line.startsWith('loading')).length
    await until('both interpreters load', () => loaded() === 2)
    for (let i = 0; i < 20; i++) drop(spool, `1-warm-${i}`, packet({}))
    await until('the first tasks have run', () => leftIn(spool).length === 0)
    drop(spool, '2-dies', packet({ do: 'die' }))
    await until('another interpreter is loading', () => existsSync(slow))
    await daemon.waitFor(/the Python interpreter \(pid: \d+\) exited with code 1/)
    for (let i = 0; i < 30; i++) drop(spool, `3-${i}`, packet({}))
    await until('the other tasks have run', () => !leftIn(spool).some(name => name.startsWith('3-')))
    assert.ok(existsSync(slow))
    daemon.child.kill('SIGTERM')
    assert.equal(await daemon.code(), 0)
  })

  it('runs one task at a time, whatever spooler-concurrency says, while another worker runs the others', async () => {
    const spool = spoolDirectory()
    const gate = join(dirname(spool), 'gate')
    const handler = `
def spooler(env):
    journal('run ' + env['spooler_task_name'].decode())
    while env.get(b'do') and not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.02)
    return -2
uwsgi.spooler = spooler
`
    const ini = { 'spooler-concurrency': 8, 'spooler-processes': 2, 'spooler-ordered': true }
    const daemon = await startHost('python', { spool, handler, ini })
    for (let i = 0; i < 20; i++) drop(spool, `0-warm-${i}`, packet({}))
    await until('the first tasks have run', () => leftIn(spool).length === 0)
    drop(spool, '1-long', packet({ do: 'wait' }))
    await until('the long task runs', () => daemon.journal().includes('run 1-long'))
    for (let i = 0; i < 30; i++) drop(spool, `2-${i}`, packet({}))
    await until('the other tasks have run', () => leftIn(spool).length === 1)
    assert.equal(new Set(daemon.journal()).size, daemon.journal().length)
    writeFileSync(gate, '')
    await until('no task is left', () => leftIn(spool).length === 0)
  })
})

const LOADING: Readonly<Record<Language, (died: string) => string>> = {
  python: died => `
if os.path.exists('${died}'):
    journal(str(os.getpid()))
    time.sleep(0.5)
def spooler(env):
    open('${died}', 'w')
    os._exit(1)
uwsgi.spooler = spooler
`,
  perl: died => `
if (-e '${died}') {
    journal($$);
    select undef, undef, undef, 0.5;
}
uwsgi::spooler(sub { open my $fh, '>', '${died}'; require POSIX; POSIX::_exit(1) });
`,
  ruby: died => `
if File.exist?('${died}')
  journal(Process.pid.to_s)
  sleep 0.5
end
def UWSGI.spooler(env)
  File.write('${died}', '')
  exit!(1)
end
`,
}

describe('an interpreter that has loaded its code after its worker is gone', () => {
  for (const language of ['python', 'perl', 'ruby'] as const)
    it(`ends with no error in the log: ${language}`, {
      skip: skipUnless(language === 'python' ? 'python3' : language),
    }, async () => {
      const spool = spoolDirectory()
      const died = join(dirname(spool), 'died')
      drop(spool)
      const ini = { 'spooler-max-crashes': 1 }
      const daemon = await startHost(language, {
        spool,
        handler: LOADING[language](died),
        ini,
        args: ['--drain'],
        isUnready: true,
      })
      assert.equal(await daemon.code(), 3)
      const [loading = ''] = daemon.journal()
      await untilGone(Number(loading))
      assert.doesNotMatch(daemon.output, /Traceback|Broken pipe|EPIPE/)
    })
})
