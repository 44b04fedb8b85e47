import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { readAudit } from '#src/engines/spool/admin/audit.js'
import { hiddenKeysOf, noteHiddenKeys, renewHiddenKeys } from '#src/engines/spool/hidden-keys.js'
import { inProcess, spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'
import { startHost } from '../hosts/host-daemon.js'

const SECRET = 's3cr3t-value'
const KWARGS = JSON.stringify({ user: 'joe', password: SECRET })
const HANDLER = `export default env => { throw new Error('login as joe failed: password=' + JSON.parse(env.kwargs).password) }`
/** Throws an error with the hidden value of its first task when the file `now` appears; its second task waits for ever. */
const LEAVES = `
import { existsSync } from 'node:fs'
export default env => {
  if (env.waits) return new Promise(() => {})
  const [now, { password }] = [env.now, JSON.parse(env.body)]
  setInterval(() => { if (existsSync(now)) throw new Error('left behind: ' + password + ' is refused') }, 10)
  return -2
}`
const LEAVES_A_THREAD = `
import json, os, threading, time
def left_behind(now, password):
    while not os.path.exists(now): time.sleep(0.01)
    raise ValueError('left behind: %s is refused' % password)
def spooler(env):
    args = (env[b'now'].decode(), json.loads(env['body'])['password'])
    threading.Thread(target=left_behind, args=args, daemon=True).start()
    return uwsgi.SPOOL_OK
uwsgi.spooler = spooler`

/** Prints hidden values in pieces and over several lines, and texts that only begin like a hidden value. */
const IN_PIECES = `
export default ({ password, key, longer, twice }) => {
  for (const piece of ['of one line: ' + password.slice(0, 5), password.slice(5, 9), password.slice(9) + '.\\n'])
    process.stdout.write(piece)
  for (const line of ('of two lines: ' + key + '.').split('\\n')) process.stdout.write(line + '\\n')
  process.stdout.write('begins alike: ' + password.slice(0, 5))
  process.stdout.write('-not\\n')
  for (const piece of ['as a pair: password=' + password.slice(0, 5), password.slice(5) + ' alike.\\n'])
    process.stdout.write(piece)
  for (const piece of ['of another alike: password="no', 'body", token: 12', '34, 5\\n']) process.stdout.write(piece)
  for (const piece of [...('in one another alike: ' + longer + '.\\n')]) process.stdout.write(piece)
  process.stdout.write('twice alike: ' + twice)
  process.stdout.write(' and\\n')
  process.stderr.write('ends alike: ' + password.slice(0, 5))
  return -2
}`

/** Starts a daemon, and waits until its task has failed with an error that quotes the secret. */
async function failing(ini: Record<string, string>) {
  const spool = spoolDirectory()
  drop(spool, 'task', packet({ password: SECRET, kwargs: KWARGS, to: 'joe' }, KWARGS))
  const daemon = await startDaemon({ spool, handler: HANDLER, ini: { 'spooler-max-attempts': '1', ...ini } })
  const dead = join(spool, '.spoold/dead/task')
  await until('the task is dead', () => existsSync(`${dead}.json`))
  await daemon.waitFor(/login as joe failed/)
  return { spool, daemon, dead }
}

describe('spooler-hide', () => {
  it('hides values of great depth or length without stopping a process or a command', async () => {
    const spool = spoolDirectory()
    const deep = `${'['.repeat(30_000)}"s3cr3t-deep"${']'.repeat(30_000)}`
    drop(spool, 'deep', packet({ password: deep }, 'was given s3cr3t-deep'))
    drop(spool, 'long', packet({ length: '20000000' }))
    drop(spool, 'later', packet({ password: deep }), 4_000_000_000)
    const handler = `export default (env, task) => {
      task.log(env.length ? 'password="' + 'x'.repeat(Number(env.length)) + '"' : env.body)
      return task.SPOOL_OK
    }`
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-hide': 'password' } })
    await daemon.waitFor(/done with task deep/)
    await daemon.waitFor(/done with task long/)
    assert.doesNotMatch(daemon.output, /call stack|s3cr3t|xxxx/)
    assert.match(daemon.output, /deep: was given \[hidden\]/)
    const { code, stdout, stderr } = await spoold(['ls', spool])
    assert.deepEqual([code, stderr, stdout.includes('later')], [0, '', true])
  })

  for (const format of ['text', 'json'])
    it(`keeps values out of the ${format} log, and out of what commands print`, async () => {
      const { spool, daemon, dead } = await failing({
        'spooler-hide': 'password,token',
        'log-format': format,
      })
      const printed = await Promise.all(
        [
          ['show', dead],
          ['show', '--json', dead],
          ['ls', '--vars', spool],
          ['ls', '--json', '--vars', spool],
          ['ls', '--show', 'password,kwargs', spool],
          ['ls', '--by', 'password', spool],
          ['ls', '--by', 'error', spool],
          ['logs', spool],
          ['logs', '--json', spool],
          ['rm', '--dry-run', '--key', `password=${SECRET}`, '--state', 'dead', spool],
        ].map(args => inProcess(args)),
      )
      for (const { stdout, stderr, code } of printed) {
        assert.equal(code, 0, stderr)
        assert.ok(!`${stdout}${stderr}`.includes(SECRET), stdout)
      }
      assert.match(printed[0]?.stdout ?? '', /"password" = "\[hidden\]"[\s\S]*joe/)
      assert.match(printed[9]?.stdout ?? '', /would remove/)
      assert.ok(!daemon.output.includes(SECRET), daemon.output)
      assert.match(daemon.output, /login as joe failed: password=\[hidden\]/)
      assert.ok(readFileSync(dead).includes(SECRET), 'the task itself is unchanged')
      assert.equal((await inProcess(['rm', '--key', `password=${SECRET}`, '--state', 'dead', spool])).code, 0)
      assert.ok(!JSON.stringify(readAudit(spool, 9)).includes(SECRET))
      assert.equal(existsSync(dead), false)
    })

  it('keeps values that are printed in pieces out of the log, and loses no other text', async () => {
    const spool = spoolDirectory()
    drop(
      spool,
      'task',
      packet({
        password: SECRET,
        key: 'first half\nsecond half',
        longer: `${SECRET}-longer`,
        twice: 'papa',
      }),
    )
    const daemon = await startDaemon({
      spool,
      handler: IN_PIECES,
      ini: { 'spooler-hide': 'password,key,token,longer,twice' },
    })
    await daemon.waitFor(/done with task task/)
    const printed = daemon.output.split('\n').filter(line => /of one|of two|alike|half/.test(line))
    assert.deepEqual(printed.sort(), [
      'as a pair: password=[hidden] alike.',
      'begins alike: s3cr3-not',
      'ends alike: s3cr3',
      'in one another alike: [hidden].',
      'of another alike: password=[hidden], token: [hidden], 5',
      'of one line: [hidden].',
      'of two lines: [hidden].',
      'twice alike: [hidden] and',
    ])
  })

  it('hides every value while its list is missing or replaced by an older one, until the daemon writes it again', async () => {
    const spool = spoolDirectory()
    const [task, list] = [join(spool, 'task'), join(spool, '.spoold/hide')]
    chmodSync(spool, 0o2770)
    drop(spool, 'task', packet({ password: SECRET, to: 'joe' }), 4_000_000_000)
    const daemon = await startDaemon({ spool, handler: HANDLER, ini: { 'spooler-hide': 'password' } })
    const show = async (run = inProcess, ...more: string[]) => {
      const { stdout, stderr } = await run(['show', ...more, task])
      assert.ok(!stdout.includes(SECRET), stdout)
      return [stdout.includes('"joe"'), /all values are hidden, because .*--ini/.test(stderr)]
    }
    await until('the list of hidden keys is there', () => existsSync(list))
    assert.deepEqual(await show(), [true, false])
    daemon.child.kill('SIGSTOP')
    renameSync(join(spool, '.spoold'), join(spool, 'moved'))
    assert.deepEqual(await show(), [false, true])
    assert.deepEqual(await show(spoold, '--ini', daemon.iniFile), [true, false])
    const { stdout } = await inProcess(['ls', '--json', '--vars', spool])
    assert.match(stdout, /"to","\[hidden\]"/)
    mkdirSync(join(spool, '.spoold'), 0o700) // of a time when nothing was hidden
    writeFileSync(list, '')
    assert.deepEqual(await show(), [false, true])
    daemon.child.kill('SIGCONT')
    await until('the list of hidden keys is there again', () => readFileSync(list, 'utf8') === 'password\n')
    assert.deepEqual(await show(), [true, false])
  })

  it('follows its list, and without a valid one hides every value if others could have moved the list', () => {
    const spool = spoolDirectory()
    const state = join(spool, '.spoold')
    const hides = () => {
      const { isOn, isEverything } = hiddenKeysOf(spool)
      return isEverything ? 'everything' : isOn
    }
    const found = (mode: number) => {
      chmodSync(spool, mode)
      return hides()
    }
    const MODES = [0o700, 0o750, 0o1777, 0o3770, 0o770, 0o2770, 0o777]
    const unknown = [false, false, false, false, 'everything', 'everything', 'everything']
    assert.deepEqual(MODES.map(found), unknown)
    noteHiddenKeys(spool, [])
    assert.deepEqual(MODES.map(found), Array(7).fill(false))
    noteHiddenKeys(spool, ['password'])
    assert.deepEqual(MODES.map(found), Array(7).fill(true))
    writeFileSync(join(state, 'other'), '') // as if written by another daemon, which has ended
    renameSync(join(state, 'other'), join(state, 'hide'))
    assert.deepEqual(MODES.map(found), unknown)
    renewHiddenKeys(spool, ['password'])
    assert.deepEqual(MODES.map(found), Array(7).fill(true))
    rmSync(state, { recursive: true })
    symlinkSync(spool, state)
    assert.deepEqual(MODES.map(found), unknown)
  })

  it('hides nothing when it is not set', async () => {
    const { daemon, dead, spool } = await failing({})
    assert.match((await inProcess(['show', dead])).stdout, new RegExp(SECRET))
    assert.match(daemon.output, new RegExp(SECRET))
    assert.equal(existsSync(join(spool, '.spoold/hide')), false)
  })

  describe('hides a value without its key that is thrown after its task has ended', () => {
    const ini = { 'spooler-hide': 'password' }

    /** Runs a task that has ended when this returns. @returns what makes the handler throw */
    async function leaving(spool: string, daemon: Awaited<ReturnType<typeof startDaemon>>) {
      const home = join(spool, '..')
      drop(spool, 'leaves', packet({ now: join(home, 'now') }, KWARGS))
      await until(`the task has ended:\n${daemon.output}`, () => !existsSync(join(spool, 'leaves')))
      return () => drop(home, 'now')
    }

    it('by a timer, in the log', async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({ spool, handler: LEAVES, ini })
      const throwNow = await leaving(spool, daemon)
      throwNow()
      await daemon.waitFor(/left behind: \[hidden\] is refused/)
      assert.ok(!daemon.output.includes(SECRET), daemon.output)
    })

    it('by a timer while another task runs, in the log, and has no record of it at that other task', async () => {
      const spool = spoolDirectory()
      const daemon = await startDaemon({ spool, handler: LEAVES, ini })
      const throwNow = await leaving(spool, daemon)
      drop(spool, 'waits', packet({ waits: 'yes' }))
      await daemon.waitFor('managing request waits')
      throwNow()
      await daemon.waitFor(/left behind: \[hidden\] is refused/)
      await until('it runs again', () => daemon.output.split('managing request waits').length > 2)
      const { stdout } = await inProcess(['ls', '--json', spool])
      assert.match(stdout, /waits/)
      assert.ok(!`${stdout}${daemon.output}`.includes(SECRET), stdout)
      assert.ok(!stdout.includes('left behind'), stdout)
    })

    it('by a Python thread, in what the thread prints', { skip: skipUnless('python3') }, async () => {
      const spool = spoolDirectory()
      const daemon = await startHost('python', { spool, handler: LEAVES_A_THREAD, ini })
      const throwNow = await leaving(spool, daemon)
      throwNow()
      await daemon.waitFor(/ValueError: left behind: \[hidden\] is refused/)
      assert.ok(!daemon.output.includes(SECRET), daemon.output)
    })
  })
})
