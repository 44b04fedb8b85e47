import assert from 'node:assert/strict'
import { chmodSync, chownSync, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess, spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { skipUnless } from '../helpers/requires.js'
import { listed, recordOf, stateOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const NOW = Math.floor(Date.now() / 1000)
const IN_A_YEAR = NOW + 31_536_000

function furnished(): string {
  const spool = spoolDirectory()
  for (const priority of ['5', '05']) mkdirSync(join(spool, priority))
  drop(spool, 'old', packet({ to: 'joe', n: '1' }), NOW - 10_000)
  drop(spool, 'young', packet({ to: 'joe', n: '2' }), NOW - 10)
  drop(spool, 'waits', packet({ to: 'jim' }), IN_A_YEAR)
  drop(spool, '5/five', packet({ to: 'jim' }), NOW - 20_000)
  drop(spool, '05/also', packet({ to: 'jam' }), NOW - 10)
  drop(spool, 'text', 'no task at all', NOW - 20_000)
  return spool
}

describe('the filters', () => {
  for (const [filters, expected] of [
    [[], ['05/also', '5/five', 'old', 'text', 'waits', 'young']],
    [
      ['--state', 'waiting,malformed'],
      ['text', 'waits'],
    ],
    [
      ['--older-than', '2h'],
      ['5/five', 'old', 'text'],
    ],
    [['--older-than', '2h', '--newer-than', '4h'], ['old']],
    [
      ['--newer-than', '100s'],
      ['05/also', 'waits', 'young'],
    ],
    [
      ['--priority', '5'],
      ['05/also', '5/five'],
    ],
    [
      ['--key', 'to=joe'],
      ['old', 'young'],
    ],
    [['--key', 'to=joe', '--key', 'n=2'], ['young']],
    [
      ['--name', '*[ei]*'],
      ['5/five', 'text', 'waits'],
    ],
    [['--reason', 'crashes'], []],
  ] as const)
    it(`of ls: ${filters.join(' ') || 'none'}`, async () => {
      assert.deepEqual([...(await listed(furnished(), '--by-name', ...filters)).keys()], expected)
    })

  it('apply to files that a command names, too, and make --all unnecessary', async () => {
    const spool = furnished()
    const paths = ['old', 'young'].map(name => join(spool, name))
    const { stdout } = await inProcess(['rm', '--key', 'n=1', ...paths])
    assert.equal(stdout, `removed ${spool}/old\n`)
    assert.equal((await inProcess(['rm', '--older-than', '1h', spool])).stdout, `removed ${spool}/5/five\n`)
    assert.deepEqual(leftIn(spool), ['05/also', 'text', 'waits', 'young'])
    assert.equal((await inProcess(['rm', '--state', 'malformed', spool])).stdout, `removed ${spool}/text\n`)
  })

  it('work with relative paths, also from within the spool itself', async () => {
    const spool = furnished()
    assert.equal(
      (await spoold(['rm', 'old', './young'], { cwd: spool })).stdout,
      'removed ./old\nremoved ./young\n',
    )
    assert.equal((await spoold(['hold', '5/five'], { cwd: spool })).stdout, 'held ./5/five\n')
    assert.ok(recordOf(spool, '5/five') !== undefined, 'the daemon finds the record')
    assert.deepEqual(readdirSync(join(spool, '5')), ['five'])
  })
})

describe('ls and show', () => {
  it('change no task file', async () => {
    const spool = furnished()
    const path = join(spool, 'old')
    const before = statSync(path).ctimeMs
    await inProcess(['ls', spool])
    await inProcess(['show', path])
    assert.equal(statSync(path).ctimeMs, before)
  })
})

describe('a spool of another user', { skip: skipUnless('root') }, () => {
  const USER = 54_321

  it('is changed by root as that user, so that the daemon of that user can use what was made', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, 'a')
    drop(spool, 'b')
    for (const each of [spool, path]) chownSync(each, USER, USER)
    chmodSync(dirname(spool), 0o711)
    assert.equal((await spoold(['hold', path])).code, 0)
    for (const made of ['.spoold', '.spoold/records', '.spoold/records/a.json']) {
      const { uid, gid } = lstatSync(join(spool, made))
      assert.deepEqual([uid, gid], [USER, USER], made)
    }
    const theirs = await spoold(['hold', join(spool, 'b')]) // a file of root with mode 0600, which that user may not open
    assert.equal(theirs.code, 1)
    assert.match(theirs.stderr, new RegExp(`/b: uid ${USER} cannot open it: EACCES`))
  })
})

describe('a spool whose tasks are claimed by leases', () => {
  it('shows a running task as running, refuses to remove it, and does not run a held task', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: `export default async (env, task) => {
        JOURNAL(task.name)
        if (env.wait) await new Promise(resolve => process.once('SIGUSR2', resolve))
        return task.SPOOL_OK
      }`,
      ini: { 'spooler-lock': 'lockfile' },
    })
    const path = drop(spool, 'runs', packet({ wait: '1' }))
    await until('the task runs', () => daemon.journal().length === 1)
    assert.equal(await stateOf(spool, 'runs'), 'running')
    const { code, stderr } = await inProcess(['rm', path])
    assert.deepEqual([code, stderr], [1, `spoold: ${path} is running; it was left alone\n`])
    const held = drop(spool, 'held')
    assert.equal((await inProcess(['hold', held])).code, 0)
    for (const pid of daemon.workers()) process.kill(pid, 'SIGUSR2')
    await until('the running task is done', () => leftIn(spool).join() === 'held')
    drop(spool, 'last')
    await until('the last task has run', () => daemon.journal().includes('last'))
    assert.equal((await inProcess(['kick', held])).code, 0)
    await until('the held task has run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal(), ['runs', 'last', 'held'])
  })
})
