import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { byteOf, recordOf, stateOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const IN_A_YEAR = Math.floor(Date.now() / 1000) + 31_536_000

const memory = spoolDirectory()
const disk = spoolDirectory(tmpdir())
const isAcross = statSync(memory).dev !== statSync(disk).dev

for (const [where, base, skip] of [
  ['on one file system', undefined, false],
  ['between file systems', tmpdir(), isAcross ? false : 'there is only one'],
] as const)
  describe(`spoold move ${where}`, { skip }, () => {
    it('keeps the time, the priority, the mode, the bytes and the failures', async () => {
      const [from, to] = [spoolDirectory(), spoolDirectory(base)]
      const daemon = await startDaemon({
        spool: from,
        handler: `export default () => { throw new Error('not here') }`,
        ini: { 'spooler-ordered': true, 'spooler-retry-delay': 3600 },
      })
      mkdirSync(join(from, '5'))
      const body = Buffer.alloc(3_000_000, 'body')
      const path = drop(from, `5/${NAME}`, packet({ to: 'joe' }, body))
      const waiting = drop(from, NAME, packet({}), IN_A_YEAR)
      chmodSync(path, 0o660)
      await until(
        'the task waits for its retry',
        async () => (await stateOf(from, `5/${NAME}`)) === 'retrying',
      )
      const [before, bytes, record] = [statSync(path), readFileSync(path), recordOf(from, `5/${NAME}`)]
      assert.equal((await inProcess(['move', '--to', to, path, waiting])).code, 0)
      assert.deepEqual(leftIn(from), [])
      assert.deepEqual(leftIn(join(from, '.spoold/records')), [])
      assert.deepEqual(leftIn(to), [`5/${NAME}`, NAME])
      const moved = join(to, '5', NAME)
      const after = statSync(moved)
      assert.ok(Math.abs(after.mtimeMs - before.mtimeMs) < 1) // microseconds are all that can be set
      assert.equal(after.mode, before.mode)
      assert.ok(readFileSync(moved).equals(bytes))
      assert.equal(byteOf(moved), 0x01)
      const { nextRunAt: _next, ...failures } = record
      assert.deepEqual(recordOf(to, `5/${NAME}`), base === undefined ? record : failures)
      assert.equal(await stateOf(to, `5/${NAME}`), 'retrying')
      assert.equal(await stateOf(to, NAME), 'waiting')
      assert.equal(daemon.journal().length, 0)
    })

    it('moves a task with a name of 255 characters', async () => {
      const [from, to] = [spoolDirectory(), spoolDirectory(base)]
      const name = 'x'.repeat(255)
      const { code, stderr } = await inProcess(['move', '--to', to, drop(from, name)])
      assert.deepEqual([code, stderr], [0, ''])
      assert.deepEqual(leftIn(from), [])
      assert.match(leftIn(to).join(), base === undefined ? /^x{255}$/ : /^uwsgi_spoolfile_on_[^,]*$/)
    })

    it('keeps a held task held, and a due task runs at once in the other spool', async () => {
      const [from, to] = [spoolDirectory(), spoolDirectory(base)]
      const daemon = await startDaemon({ spool: to })
      const held = drop(from, 'uwsgi_spoolfile_on_held')
      drop(from, 'uwsgi_spoolfile_on_due')
      await inProcess(['hold', held])
      const { code, stdout } = await inProcess(['move', '--all', '--to', to, from])
      assert.equal(code, 0)
      assert.ok(stdout.includes(`moved ${held} to ${to}/uwsgi_spoolfile_on_held\n`))
      await until('the due task has run', () => daemon.journal().length === 1)
      assert.deepEqual(leftIn(from), [])
      assert.equal(await stateOf(to, 'uwsgi_spoolfile_on_held'), 'held')
      await inProcess(['release', join(to, 'uwsgi_spoolfile_on_held')])
      await until('the released task has run, too', () => daemon.journal().length === 2)
    })

    it('gives a fresh name to a task whose name is taken in the other spool', async () => {
      const [from, to] = [spoolDirectory(), spoolDirectory(base)]
      const [mine, theirs] = [packet({ whose: 'mine' }), packet({ whose: 'theirs' })]
      drop(from, 'nightly', mine)
      drop(to, 'nightly', theirs)
      const { stdout } = await inProcess(['move', '--all', '--json', '--to', to, from])
      const { to: name } = JSON.parse(stdout)
      assert.match(name, /^uwsgi_spoolfile_on_/)
      assert.deepEqual(leftIn(to), ['nightly', name])
      assert.ok(readFileSync(join(to, 'nightly')).equals(theirs))
      assert.ok(readFileSync(join(to, name)).equals(mine))
    })

    it('leaves a running task where it is', async () => {
      const [from, to] = [spoolDirectory(), spoolDirectory(base)]
      const daemon = await startDaemon({
        spool: from,
        handler: `export default async (env, task) => {
          JOURNAL(task.name)
          await new Promise(resolve => process.once('SIGUSR2', resolve))
          return task.SPOOL_OK
        }`,
      })
      const path = drop(from, NAME)
      await until('the task runs', () => daemon.journal().length === 1)
      const { code, stderr } = await inProcess(['move', '--all', '--to', to, from])
      assert.deepEqual([code, stderr], [1, `spoold: ${path} is running; it was left alone\n`])
      assert.deepEqual([leftIn(from), leftIn(to)], [[NAME], []])
      for (const pid of daemon.workers()) process.kill(pid, 'SIGUSR2')
      await until('the task is done', () => leftIn(from).length === 0)
    })
  })

describe('spoold move', () => {
  it('refuses to move a task to its own spool, a dead letter, or a part of a spool', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    assert.match((await inProcess(['move', '--to', spool, path])).stderr, /x: it is there already\n$/)
    mkdirSync(join(spool, '.spoold/dead'), { recursive: true })
    const dead = drop(join(spool, '.spoold/dead'), 'd')
    assert.match(
      (await inProcess(['move', '--to', spoolDirectory(), dead])).stderr,
      /\.spoold\/dead\/d: it is a dead letter: requeue it first\n$/,
    )
    mkdirSync(join(spool, '5'))
    const part = await inProcess(['move', '--all', '--to', spoolDirectory(), join(spool, '5')])
    assert.equal(part.code, 64)
    assert.match(part.stderr, /5 is a part of the spool .*: name that, with --priority 5/)
  })

  it('refuses a directory that is missing or hardly meant as a spool, unless --create is given', async () => {
    const home = workspace()
    const [missing, sources, empty, used, uwsgis] = ['missing', 'sources', 'empty', 'used', 'uwsgis'].map(
      name => join(home, name),
    ) as [string, string, string, string, string]
    for (const each of [sources, empty, used, uwsgis]) mkdirSync(each)
    writeFileSync(join(sources, 'main.c'), 'int main() {}\n')
    writeFileSync(join(used, 'README'), 'not a task')
    mkdirSync(join(used, '.spoold'), { mode: 0o700 })
    mkdirSync(join(uwsgis, '5'))
    for (const name of [NAME, 'plain']) drop(uwsgis, name)
    const from = spoolDirectory()
    const moveTo = async (to: string, ...args: string[]) => {
      const path = drop(from)
      const { code, stdout, stderr } = await inProcess(['move', '--to', to, ...args, path])
      return { code, said: stdout + stderr, isMoved: leftIn(from).length === 0 }
    }
    const refused = [
      [missing, `${missing} does not exist`],
      [sources, `${sources} holds main.c, which is no task, and no .spoold`],
    ] as const
    for (const [to, why] of refused)
      for (const args of [[], ['--dry-run']]) {
        const { code, said, isMoved } = await moveTo(to, ...args)
        assert.equal(said, `spoold: [SPOOL_UNUSABLE] --to: ${why}: with --create it is a spool from now on\n`)
        assert.deepEqual([code, isMoved, leftIn(missing), leftIn(sources)], [1, false, [], ['main.c']])
        assert.equal((await inProcess(['rm', '--all', from])).code, 0)
      }
    for (const to of [empty, used, uwsgis]) assert.equal((await moveTo(to)).isMoved, true, to)
    for (const [to] of refused) assert.equal((await moveTo(to, '--create')).isMoved, true, to)
    assert.equal(statSync(missing).mode & 0o777, 0o750)
    const file = await moveTo(join(sources, 'main.c'))
    assert.deepEqual([file.code, /--to: expected a spool directory/.test(file.said)], [64, true])
  })
})
