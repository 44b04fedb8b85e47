import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { byteOf, listed, recordOf, secondsOf, stateOf } from '../helpers/spools.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const NAME = 'uwsgi_spoolfile_on_x'
const UNTIL_SAID = `export default (env, task) => {
  JOURNAL(task.name + ' ' + task.attempt)
  if (globalThis.isGood) return task.SPOOL_OK
  throw new Error('no route to host')
}
process.on('SIGUSR2', () => { globalThis.isGood = true })`

/** Returns a spool whose daemon has buried tasks of these names, and still runs. */
async function buried(names: readonly string[], ini = {}) {
  const spool = spoolDirectory()
  const daemon = await startDaemon({
    spool,
    handler: UNTIL_SAID,
    ini: { 'spooler-max-attempts': 1, 'spooler-ordered': true, 'spooler-frequency': 3600, ...ini },
  })
  for (const name of names) {
    if (name.includes('/')) mkdirSync(join(spool, name.split('/')[0] ?? ''), { recursive: true })
    drop(spool, name, packet({ to: 'joe' }, 'a body'))
  }
  await until(
    'all tasks are buried',
    async () => (await listed(spool, '--state', 'dead')).size === names.length,
  )
  return { spool, daemon, dead: (name: string) => join(spool, '.spoold/dead', name) }
}

describe('a dead letter', () => {
  it('is listed with its reason, and shown with its arrival, body, handler and last error', async () => {
    const { spool, daemon, dead } = await buried([NAME])
    const row = (await listed(spool)).get(`.spoold/dead/${NAME}`)
    assert.deepEqual([row.state, row.reason, row.attempts, row.crashes], ['dead', 'attempts', 1, 0])
    assert.match(
      (await inProcess(['ls', spool])).stdout,
      /^dead .* 1 {2}\.spoold\/dead\/\S+ {2}attempts: Error: no route/m,
    )
    const { stdout } = await inProcess(['show', dead(NAME)])
    assert.match(
      stdout,
      /: dead since \d{4}-.* \(attempts\), arrived \d{4}-\S+Z, \d+ bytes\n {2}"to" = "joe"\n {2}body: "a body"/,
    )
    assert.match(stdout, /why: it failed once.*\n {2}where: on \S+, by /)
    assert.ok(stdout.includes(daemon.handlerFile))
    assert.match(stdout, /the last error:\n {4}Error: no route to host\n {8}at /)
    const json = JSON.parse((await inProcess(['show', '--json', dead(NAME)])).stdout)
    assert.deepEqual([json.state, json.deadLetter.reason, json.body], ['dead', 'attempts', 'a body'])
  })

  it('is shown, but refused by requeue, when its file is no spool packet', async () => {
    const spool = spoolDirectory()
    await startDaemon({ spool, ini: { 'spooler-grace': 1, 'spooler-frequency': 1 } })
    drop(spool, NAME, 'hello, spool')
    await until('the file is buried', () => existsSync(join(spool, '.spoold/dead', NAME)))
    const { code, stdout } = await inProcess(['show', join(spool, '.spoold/dead', NAME)])
    assert.equal(code, 0)
    assert.match(stdout, /\(malformed\), arrived \S+Z, 12 bytes\n {2}no packet: modifier1 is 104/)
    const requeued = await inProcess(['requeue', join(spool, '.spoold/dead', NAME)])
    assert.equal(requeued.code, 1)
    assert.match(requeued.stderr, /it is not a spool packet: nothing could run it/)
  })
})

describe('spoold requeue', () => {
  it('returns a dead letter to its old name with no attempts, so that it runs at once', async () => {
    const { spool, daemon, dead } = await buried([NAME, `5/${NAME}`])
    for (const pid of daemon.workers()) process.kill(pid, 'SIGUSR2')
    for (const name of [NAME, `5/${NAME}`]) {
      const { code, stdout } = await inProcess(['requeue', dead(name)])
      assert.equal(code, 0)
      assert.equal(stdout, `requeued ${dead(name)} to ${spool}/${name}\n`)
    }
    await until('both tasks have run', () => leftIn(spool).length === 0)
    assert.deepEqual(daemon.journal().slice(2), [`${NAME} 1`, `${NAME} 1`])
    assert.deepEqual(leftIn(join(spool, '.spoold/dead')), [])
    await until('no record is left', () => leftIn(join(spool, '.spoold/records')).length === 0)
  })

  it('keeps the attempts with --keep-attempts, so that the next failure is the last', async () => {
    const { spool, daemon } = await buried([NAME], { 'spooler-max-attempts': 2, 'spooler-retry-delay': 0 })
    assert.deepEqual(daemon.journal(), [`${NAME} 1`, `${NAME} 2`])
    assert.equal((await inProcess(['requeue', '--all', '--keep-attempts', spool])).code, 0)
    await until(
      'the task is buried again',
      async () => daemon.journal().length === 3 && (await listed(spool, '--state', 'dead')).size === 1,
    )
    assert.deepEqual(daemon.journal().slice(2), [`${NAME} 3`])
    assert.equal((await listed(spool)).get(`.spoold/dead/${NAME}`).attempts, 3)
  })

  it('makes the task due now, keeps its record with --keep-attempts, and changes only its state byte', async () => {
    const { spool, daemon, dead } = await buried([NAME])
    daemon.child.kill('SIGTERM')
    await daemon.code()
    const bytes = readFileSync(dead(NAME), 'hex')
    utimesSync(dead(NAME), 4e9, 4e9)
    await inProcess(['requeue', '--keep-attempts', dead(NAME)])
    const path = join(spool, NAME)
    assert.ok(Math.abs(secondsOf(path) - Date.now() / 1000) < 30)
    assert.equal(byteOf(path), 0x01)
    assert.equal(readFileSync(path, 'hex').replace(/^(.{6})01/, '$100'), bytes)
    const { attempts, lastError, nextRunAt } = recordOf(spool, NAME)
    assert.deepEqual([attempts, nextRunAt], [1, undefined])
    assert.match(lastError, /no route/)
    assert.equal(await stateOf(spool, NAME), 'due')
  })

  it('gives the task a fresh name of the usual form when its own is taken', async () => {
    const { spool, daemon, dead } = await buried([NAME])
    daemon.child.kill('SIGTERM')
    await daemon.code()
    const taken = drop(spool, NAME, packet({ other: '1' }))
    const { stdout } = await inProcess(['requeue', '--json', dead(NAME)])
    const { to } = JSON.parse(stdout)
    assert.match(to, /^uwsgi_spoolfile_on_.+_\d+_\d+_\d+_\d+_\d+$/)
    assert.match(readFileSync(taken, 'latin1'), /other/)
    assert.match(readFileSync(join(spool, to), 'latin1'), /joe.*a body/s)
    assert.deepEqual(leftIn(spool), [NAME, to].sort())
  })

  it('stays in the spool when the ref in the JSON of a dead letter leads out of it', async () => {
    const { spool, daemon, dead } = await buried([NAME])
    daemon.child.kill('SIGTERM')
    await daemon.code()
    const letter = JSON.parse(readFileSync(`${dead(NAME)}.json`, 'utf8'))
    for (const ref of [
      '../escaped',
      '../../escaped',
      '/tmp/escaped',
      '.spoold/escaped',
      '5/../../escaped',
      '',
    ]) {
      writeFileSync(`${dead(NAME)}.json`, JSON.stringify({ ...letter, ref }))
      const { stdout, stderr } = await inProcess(['requeue', '--json', dead(NAME)])
      assert.equal(stderr, '', ref)
      const { to } = JSON.parse(stdout)
      assert.match(to, /^(escaped|uwsgi_spoolfile_on_[^/]+)$/)
      renameSync(join(spool, to), dead(NAME))
    }
  })

  it('takes only dead letters of the reason that --reason names', async () => {
    const { spool } = await buried([NAME])
    const none = await inProcess(['requeue', '--reason', 'crashes', spool])
    assert.deepEqual(none, { code: 0, stdout: '', stderr: 'spoold: no task fits\n' })
    assert.match(
      (await inProcess(['requeue', '--reason', 'attempts', '--dry-run', spool])).stdout,
      /^would requeue /,
    )
  })
})

describe('spoold rm', () => {
  it('removes tasks with their records, and dead letters only with --state dead', async () => {
    const { spool, daemon, dead } = await buried([NAME])
    daemon.child.kill('SIGTERM')
    await daemon.code()
    for (const name of ['a', 'b', 'c']) drop(spool, name)
    drop(spool, 'README', 'what is no task is removed only if it is named')
    assert.equal((await inProcess(['hold', join(spool, 'a')])).code, 0)
    assert.equal((await inProcess(['rm', join(spool, 'a')])).code, 0)
    assert.equal(recordOf(spool, 'a'), undefined)
    assert.equal((await inProcess(['rm', '--name', '[bx]', spool])).stdout, `removed ${spool}/b\n`)
    assert.equal((await inProcess(['rm', '--all', spool])).code, 0)
    assert.deepEqual(leftIn(spool), ['README'])
    assert.ok(existsSync(dead(NAME)))
    assert.equal((await inProcess(['rm', '--state', 'dead', '--newer-than', '1h', spool])).code, 0)
    assert.deepEqual(leftIn(join(spool, '.spoold/dead')), [])
    const gone = await inProcess(['rm', join(spool, 'b')])
    assert.deepEqual(gone, { code: 1, stdout: '', stderr: `spoold: ${spool}/b does not exist\n` })
  })
})

describe('spoold purge', () => {
  const names = [1, 2, 3, 4, 5].map(n => `${NAME}_${n}`)

  it('removes the oldest beyond --max-count, and all that are older than --max-age', async () => {
    const { spool } = await buried([])
    for (const name of names) {
      drop(spool, name)
      await until('the task is buried', async () => existsSync(join(spool, '.spoold/dead', name)))
    }
    const left = () => leftIn(join(spool, '.spoold/dead')).filter(name => !name.endsWith('.json'))
    assert.equal(
      (await inProcess(['purge', '--max-count', '3', '--dry-run', spool])).stdout,
      `${spool}: would remove 2 dead letters\n`,
    )
    assert.deepEqual(left(), names)
    assert.equal(
      (await inProcess(['purge', '--max-count', '3', spool])).stdout,
      `${spool}: removed 2 dead letters\n`,
    )
    assert.deepEqual(left(), names.slice(2))
    assert.equal(
      (await inProcess(['purge', '--max-age', '1h', spool])).stdout,
      `${spool}: removed 0 dead letters\n`,
    )
    const { stdout } = await inProcess(['purge', '--max-age', '1ms', '--json', spool])
    assert.deepEqual(JSON.parse(stdout), { command: 'purge', spooler: spool, purged: 3, dryRun: false })
    assert.deepEqual(leftIn(join(spool, '.spoold/dead')), [])
  })

  it('is done by the daemon, too, under spooler-dead-max-count and spooler-dead-max-age', async () => {
    const sweepsOften = { 'spooler-sweep': 1 }
    for (const limit of [{ 'spooler-dead-max-count': 2 }, { 'spooler-dead-max-age': 1 }] as const) {
      const { spool, daemon } = await buried([])
      daemon.child.kill('SIGTERM')
      await daemon.code()
      for (const name of names) drop(spool, name)
      const again = await startDaemon({
        spool,
        handler: UNTIL_SAID,
        ini: { 'spooler-max-attempts': 1, ...sweepsOften, ...limit },
      })
      const wanted = 'spooler-dead-max-count' in limit ? 2 : 0
      await until(
        'the daemon has purged the dead letters beyond the limit',
        () => leftIn(join(spool, '.spoold/dead')).length === 2 * wanted && again.journal().length >= 5,
      )
      await again.waitFor(/purged \d dead letters?/)
      assert.deepEqual(leftIn(spool), [])
    }
  })
})

describe('the JSON of a dead letter that somebody else wrote', () => {
  const letter = {
    ref: 'a',
    reason: 'crashes',
    detail: 'd',
    buriedAt: Date.now(),
    attempts: 1,
    crashes: 1,
    handlers: [],
    host: 'h',
  }
  for (const wrong of [
    { buriedAt: 'yesterday' },
    { buriedAt: null },
    { attempts: '3' },
    { lastError: 7 },
    { firstFailureAt: 'x' },
    { handlers: 'h' },
    { detail: undefined },
  ])
    it(`is ignored when it has ${JSON.stringify(wrong)}, and the dead letter is listed all the same`, async () => {
      const spool = spoolDirectory()
      const dead = join(spool, '.spoold/dead')
      mkdirSync(dead, { recursive: true, mode: 0o700 })
      for (const name of ['a', 'b']) drop(spool, `.spoold/dead/${name}`)
      writeFileSync(join(dead, 'a.json'), JSON.stringify({ ...letter, ...wrong }))
      writeFileSync(join(dead, 'b.json'), JSON.stringify({ ...letter, ref: 'b' }))
      const { code, stdout, stderr } = await inProcess(['ls', '--json', spool])
      assert.deepEqual([code, stderr], [0, ''])
      const rows = stdout
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line))
      assert.deepEqual(
        rows.map(({ name, state, reason }) => [name, state, reason]),
        [
          ['.spoold/dead/a', 'dead', undefined],
          ['.spoold/dead/b', 'dead', 'crashes'],
        ],
      )
      assert.equal((await inProcess(['ls', spool])).code, 0)
      assert.equal((await inProcess(['show', join(dead, 'a')])).code, 0)
    })
})
