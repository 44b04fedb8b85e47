import assert from 'node:assert/strict'
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { before, describe, it } from 'node:test'
import { enqueue } from '#src/engines/client/spool.js'
import { besidesIdle, inProcess, inProcessAt, spoold } from '../helpers/cli.js'
import { drop, leftIn } from '../helpers/files.js'
import { freePort, startRedis, type TestRedis } from '../helpers/redis.js'
import { skipUnless } from '../helpers/requires.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const LATER = new Date(Date.now() + 3_600_000)

function iniOf(spools: readonly string[], more = ''): string {
  const ini = join(workspace(), 'app.ini')
  writeFileSync(ini, `[uwsgi]\n${more}${spools.map(spool => `spooler = ${spool}\n`).join('')}`)
  return ini
}

async function run(...args: string[]) {
  const { code, stdout, stderr } = besidesIdle(await inProcess(args))
  return { code, stdout, stderr, all: stdout + stderr }
}

describe('the spools that a command line names', () => {
  it('are counted once each, by whatever path and however often they are named', async () => {
    const home = workspace()
    const spool = join(home, 'q')
    mkdirSync(join(spool, '.spoold/dead'), { recursive: true, mode: 0o700 })
    symlinkSync(spool, join(home, 'link'))
    for (let i = 0; i < 4; i++) drop(spool)
    for (let i = 0; i < 2; i++) drop(spool, `.spoold/dead/dead-${i}`)
    const ini = iniOf([spool, `${home}/./q`, `${home}/link`])
    for (const words of [
      ['q', './q', spool, 'link'],
      ['--ini', ini],
    ]) {
      const at = async (...args: string[]) => {
        const { code, stdout, stderr } = await inProcessAt(home, [...args, ...words])
        return { code, lines: stdout.trimEnd().split('\n'), stderr }
      }
      assert.equal((await at('ls', '--json', '--state', 'due')).lines.length, 4)
      assert.equal((await at('rm', '--all', '--dry-run')).lines.length, 4)
      assert.equal((await at('kick', '--all')).lines.length, 4)
      assert.match((await at('status')).lines[0] ?? '', /^SPOOLD WARNING: no daemon answers; 4 due, /)
      assert.equal((await at('pause', '--json')).lines.length, 1)
      assert.equal((await at('resume', '--json')).lines.length, 1)
      assert.equal((await at('fsck', '--json')).lines.length, 2, 'both dead letters lack their reason')
      assert.equal((await at('shape', '--json')).lines.length, 1)
      assert.match((await at('purge', '--all', '--dry-run')).lines.join(), /: would remove 2 dead letters$/)
    }
    const both = await run('hold', `${spool}/${leftIn(spool)[0]}`, `${home}/link/${leftIn(spool)[0]}`)
    assert.equal(both.stdout.trimEnd().split('\n').length, 1, 'a task that is named twice is changed once')
  })

  it('are read from an ini in one way: another error in it is one line on standard error', async () => {
    const spool = spoolDirectory()
    const ini = iniOf([spool], 'spooler-harakiri = soon\n')
    const { path } = await enqueue({ to: 'joe' }, { spooler: spool, at: LATER, id: 'order-7' })
    const wrong = `spoold: ${ini}:2: error: spooler-harakiri: `
    for (const [args, code] of [
      [['ls'], 0],
      [['shape'], 0],
      [['status'], 1],
      [['fsck'], 0],
      [['pause'], 0],
      [['resume'], 0],
      [['purge', '--all'], 0],
      [['rm', '--all', '--dry-run'], 0],
      [['show', basename(path)], 0],
      [['hold', 'order-7'], 0],
      [['wait', '--timeout', '0', 'order-7'], 124],
      [['quiet'], 1],
      [['logs'], 1],
      [['schedules'], 1],
      [['enqueue', 'to=joe'], 0],
    ] as const) {
      const { code: got, stderr } = await run(...args, '--ini', ini)
      assert.equal(got, code, `${args}: ${stderr}`)
      assert.equal(stderr.split(wrong).length, 2, `${args}: ${stderr}`)
    }
  })

  it('are all visited, even if one is missing or unreachable, and the worst exit code counts', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold/dead'), { recursive: true, mode: 0o700 })
    drop(spool, '.spoold/dead/died')
    await enqueue({ to: 'joe' }, { spooler: spool, at: LATER, id: 'ord1' })
    const missing = join(workspace(), 'missing')
    const ini = iniOf([`redis://127.0.0.1:${freePort()}/0/away`, spool])
    const waits = /uwsgi_spoolfile_on_/
    const table: ReadonlyArray<readonly [args: readonly string[], wanted: RegExp]> = [
      [['ls', '--state', 'waiting'], waits],
      [['shape'], /TOTAL +1/],
      [['rm', '--all', '--dry-run'], waits],
      [['purge', '--all', '--dry-run'], /would remove 1 dead letter/],
      [['pause', '--key', 'a=b'], /: paused: tasks with a=b/],
      [['schedules'], /^$/],
      [['fsck'], /dead\/died/],
    ]
    for (const [args, wanted] of table) {
      const each = args[0] === 'fsck' ? spoold : inProcess // root's has a process for each spool
      const { code, stdout, stderr } = await each([...args, missing, spool])
      assert.match(stdout, wanted, `${args}: ${stderr}`)
      assert.match(stderr, /missing does not exist/)
      assert.equal(code, 1, args.join(' '))
    }
    const behind = async ([args, wanted]: (typeof table)[number]) => {
      const { code, stdout, stderr } = await run(...args, '--ini', ini)
      assert.match(stdout, wanted, `${args}: ${stderr}`)
      assert.match(stderr, /\[REDIS_UNREACHABLE\]/)
      assert.equal(code, 75, args.join(' '))
    }
    const found = async (code: number, ...args: string[]) =>
      assert.equal((await run(...args, '--ini', ini, 'ord1')).code, code, args.join(' '))
    const notFound = async () => {
      const { code, stderr } = await run('wait', '--ini', ini, '--timeout', '0', 'ord2')
      assert.deepEqual(
        [code, /REDIS_UNREACHABLE/.test(stderr)],
        [75, true],
        'the task may be in the spool on Redis, which is away',
      )
    }
    // each waits some seconds for Redis; fsck does not look at it, and schedules asks daemons
    await Promise.all([
      ...table.slice(0, -2).map(behind),
      found(0, 'show'),
      found(0, 'rm', '--dry-run'),
      found(124, 'wait', '--timeout', '0'),
      notFound(),
    ])
    await found(0, 'hold')
  })
})

describe('the task that a command line names', { skip: skipUnless('redis-server') }, () => {
  let redis: TestRedis
  if (skipUnless('redis-server') === false) redis = startRedis()
  before(() => redis.ready())

  /** Stores a task that waits, a cancelled one and a removed one. @returns their ids, paths and names */
  async function filled(spool: string, mark: string) {
    const add = async (state: string) => {
      const id = `${state}-${mark}`
      const { path } = await enqueue({ state }, { spooler: spool, at: LATER, id })
      return { id, path, name: basename(path) }
    }
    const [waits, dead, gone] = [await add('waits'), await add('dead'), await add('gone')]
    assert.equal((await run('cancel', dead.path)).code, 0)
    assert.equal((await run('rm', gone.path)).code, 0)
    return { waits, dead, gone }
  }

  it('is the same for looking, changing and waiting, whichever spool of an ini has it', async () => {
    const [d, one, two] = [spoolDirectory(), redis.address('one'), redis.address('two')]
    const marks = new Map([
      [d, 'd'],
      [one, 'one'],
      [two, 'two'],
    ])
    const tasks = new Map<string, Awaited<ReturnType<typeof filled>>>()
    for (const [spool, mark] of marks) tasks.set(spool, await filled(spool, mark))
    for (const spools of [[d], [one], [d, one], [one, d], [one, two], [d, one, two]]) {
      const ini = iniOf(spools)
      for (const spool of spools) {
        const there = tasks.get(spool)
        if (there === undefined) continue
        for (const call of ['name', 'id'] as const) {
          const label = `${call} in ${marks.get(spool)} of ${spools.map(each => marks.get(each))}`
          const said = (word: string, ...args: string[]) => run(...args, '--ini', ini, word)
          const codes = async (word: string) => [
            (await said(word, 'show')).code,
            (await said(word, 'rm', '--dry-run')).code,
            (await said(word, 'wait', '--timeout', '0')).code,
          ]
          assert.deepEqual(await codes(there.waits[call]), [0, 0, 124], `waits, ${label}`)
          assert.deepEqual(await codes(there.dead[call]), [0, 0, 1], `dead, ${label}`)
          assert.deepEqual(await codes(there.gone[call]), [1, 1, 0], `gone, ${label}`)
          const gone = await said(there.gone[call], 'wait')
          assert.match(gone.stderr, /^spoold: done or unknown /, label)
          const path: string = `${spool}/${there.waits[call]}`
          assert.equal((await run('show', path)).code, 0, path)
          for (const command of ['hold', 'release', 'kick', 'hold'])
            assert.equal((await run(command, path)).code, 0, `${command} ${path}`)
          assert.equal((await run('wait', '--timeout', '0', path)).code, 124, path)
        }
      }
      const never = await run('wait', '--ini', ini, 'no-such-id')
      assert.deepEqual([never.code, never.stdout], [4, ''])
      assert.match(never.stderr, /^spoold: unknown no-such-id: no task has this name or id\n$/)
    }
  })

  it('may be named by an id of any characters', async () => {
    const ids = ['Rechnung für Müller', '請求書-17', 'invoice/17', '../17', 'a?b=c', 'x'.repeat(300), '5/17']
    for (const spool of [spoolDirectory(), redis.address('ids')]) {
      const ini = iniOf([spoolDirectory(), spool])
      for (const id of ids) await enqueue({ id: 'its own' }, { spooler: spool, at: LATER, id })
      for (const id of ids) {
        const path = `${spool}/${id}`
        assert.match((await run('show', path)).stdout, /"id" = "its own"/, path)
        assert.match((await run('show', '--ini', ini, id)).stdout, /"id" = "its own"/, id)
        assert.equal((await run('wait', '--timeout', '0', path)).code, 124, path)
        assert.equal((await run('wait', '--timeout', '0', '--ini', ini, id)).code, 124, id)
        assert.equal((await run('hold', path)).code, 0, path)
        assert.equal((await run('rm', path)).code, 0, path)
        const gone = await run('wait', path)
        assert.deepEqual([gone.code, /^spoold: done or unknown /.test(gone.stderr)], [0, true], gone.all)
      }
    }
  })

  it('is never outside of a spool and its priority directories', async () => {
    const home = workspace()
    const spool = join(home, 'sp')
    for (const each of ['sp/.spoold/records', 'sp/5', 'sp/other'])
      mkdirSync(join(home, each), { recursive: true, mode: 0o700 })
    drop(spool, '.spoold/records/secret')
    drop(spool, 'other/file')
    drop(spool, '5/urgent')
    drop(home, 'secret')
    const ini = iniOf([spool])
    for (const word of ['5/../../secret', 'other/file', '.spoold/records/secret', '5/', '5/..', ''])
      assert.equal((await run('rm', '--dry-run', '--ini', ini, word)).code, 1, word)
    assert.equal((await run('rm', '--dry-run', '--ini', ini, '5/urgent')).code, 0)
    for (const word of ['sp/nothing/../../sp/5/urgent', 'sp/x/../5/urgent'])
      assert.equal((await inProcessAt(home, ['rm', '--dry-run', word])).code, 1, word)
    assert.equal((await inProcessAt(home, ['rm', '--dry-run', 'sp/5/urgent'])).code, 0)
  })
})

describe('a link to a directory whose name is not UTF-8', () => {
  for (const hasNamesake of [false, true])
    it(`is refused beside other spools${hasNamesake ? ', even if another directory has the name that Node reads' : ''}`, async () => {
      const [directory, spool] = [workspace(), spoolDirectory()]
      const [named, link, namesake] = [
        Buffer.from(`${directory}/\xe4`, 'latin1'),
        join(directory, 'link'),
        join(directory, '\ufffd'),
      ]
      mkdirSync(named)
      symlinkSync(named, link)
      drop(spool)
      if (hasNamesake) {
        mkdirSync(namesake)
        drop(namesake, 'task')
      }
      const { code, stdout, stderr } = await run('rm', '--all', spool, link)
      assert.match(stderr, /\/link cannot be used: it is a link to a directory whose name is not UTF-8\n/)
      assert.match(stdout, /^removed [^\n]*\n$/)
      assert.equal(code, 1)
      assert.equal(existsSync(join(namesake, 'task')), hasNamesake)

      const ini = iniOf([link])
      for (const words of [
        ['enqueue', '--spooler', link, 'a=b'],
        ['status', link],
        ['status', '--ini', ini],
        ['show', join(link, 'task')],
        ['wait', join(link, 'task')],
        ['doctor', ini],
      ]) {
        const refused = await run(...words)
        assert.match(refused.all, /a link to a directory whose name is not UTF-8/, words.join(' '))
        assert.notEqual(refused.code, 0)
      }
      assert.deepEqual(hasNamesake ? leftIn(namesake) : [], hasNamesake ? ['task'] : [])
    })
})
