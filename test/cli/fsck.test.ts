import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { type CliResult, spoold } from '../helpers/cli.js'
import { type Daemon, startDaemon, writeIni } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

interface Told {
  readonly state: string
  readonly kind: string
  readonly path: string
  readonly meaning: string
  readonly mend: string
  readonly detail?: string
}

async function fsck(...args: string[]): Promise<{ code: number | null; told: Told[] }> {
  const result = await spoold(['fsck', '--json', ...args])
  assert.equal(result.stderr, '')
  return { code: result.code, told: toldIn(result) }
}

const toldIn = ({ stdout }: CliResult): Told[] =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))

const summary = (told: readonly Told[]) =>
  told.map(({ state, kind, path }) => `${state} ${kind} ${path}`).sort()

/** Found; changed by nobody but --repair; mended; then clean. */
async function foundAndMended(
  spool: string,
  expected: readonly string[],
  ...args: string[]
): Promise<Told[]> {
  const before = pictureOf(spool)
  const { code, told } = await fsck(spool, ...args)
  assert.deepEqual(summary(told), expected.map(each => `found ${each}`).sort())
  assert.equal(code, 1)
  for (const { meaning, mend } of told) assert.ok(meaning.length > 10 && mend.length > 5)
  assert.deepEqual(pictureOf(spool), before, 'a look changes nothing')
  const mended = await fsck('--repair', spool, ...args)
  assert.deepEqual(summary(mended.told), expected.map(each => `mended ${each}`).sort())
  assert.equal(mended.code, 0)
  await isClean(spool, ...args)
  return mended.told
}

async function isClean(spool: string, ...args: string[]): Promise<void> {
  assert.deepEqual(await fsck(spool, ...args), { code: 0, told: [] })
}

/** Everything there, with its times: an atime may be the mark of a start. */
function pictureOf(spool: string): string[] {
  return ['.', ...readdirSync(spool, { recursive: true }).map(String)].sort().map(path => {
    const stats = lstatSync(join(spool, path))
    const { mode, uid, size, ino, mtimeMs, ctimeMs, atimeMs } = stats
    const isTask = stats.isFile() && !path.startsWith('.spoold')
    return [path, mode, uid, size, ino, mtimeMs, ctimeMs, isTask ? atimeMs : ''].join(' ')
  })
}

function configure(spool: string, settings: Parameters<typeof writeIni>[1] = {}): [string, string] {
  const ini = join(dirname(spool), 'fsck.ini')
  writeIni(ini, { spooler: spool, ...settings })
  return ['--ini', ini]
}

/** Kills a daemon and its workers at once, as nothing else would. */
async function killAll(daemon: Daemon): Promise<void> {
  const pids = [daemon.pid, ...daemon.children()]
  for (const pid of pids) process.kill(pid, 'SIGKILL')
  await daemon.exited
}

const FAILS = `export default (env, task) => { JOURNAL(task.name); return task.SPOOL_RETRY }`
const HANGS = `export default async (env, task) => { JOURNAL(task.name); await new Promise(() => setInterval(() => {}, 1000)) }`

function recordsIn(spool: string): string[] {
  const records = join(spool, '.spoold/records')
  return existsSync(records) ? readdirSync(records).filter(name => name.endsWith('.json')) : []
}

/** Runs the tasks of a spool until each was called; then the daemon is killed. */
async function runAndKill(
  spool: string,
  handler: string,
  ini: Parameters<typeof writeIni>[1] = {},
): Promise<void> {
  const tasks = leftIn(spool).length
  const daemon = await startDaemon({ spool, handler, ini: { 'spooler-concurrency': tasks, ...ini } })
  await until('all were called', () => daemon.journal().length >= tasks)
  if (handler === FAILS) await until('all are settled', () => recordsIn(spool).length === tasks)
  await killAll(daemon)
}

const LONG_AGO = 1_000_000_000
const NOBODY = 65_534
const NAME = 'uwsgi_spoolfile_on_x'

/** Its parent lets everybody in. */
function giveTo(spool: string, uid: number): void {
  chmodSync(dirname(spool), 0o777)
  chownSync(spool, uid, uid)
}

describe('spoold fsck', () => {
  it('has nothing to say of an empty spool, of waiting tasks, and of what failed and waits', async () => {
    const spool = spoolDirectory()
    await isClean(spool)
    drop(spool, 'failed')
    await runAndKill(spool, FAILS)
    drop(spool, 'due')
    drop(spool, 'later', packet({ at: '9999999999' }))
    await isClean(spool)
    const { stdout, code } = await spoold(['fsck', spool])
    assert.deepEqual([stdout, code], [`${spool}: clean\n`, 0])
  })

  it('says for people what, where, what it means and what mends it', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold'), { mode: 0o755 })
    const { stdout } = await spoold(['fsck', spool])
    assert.equal(
      stdout,
      `found rights .spoold: owner ${process.getuid?.()}:${process.getgid?.()}, mode 0755: it is for uid ${process.getuid?.()} alone, with mode 0700; to mend it: chmod 700 ${spool}/.spoold\n${spool}: 1 found\n`,
    )
  })

  it('refuses what is no spool, and to guess', async () => {
    const nowhere = await spoold(['fsck', '/nowhere'])
    assert.match(nowhere.stderr, /^spoold: \[SPOOL_UNUSABLE\] \/nowhere is no spool directory: ENOENT/)
    assert.equal(nowhere.code, 1)
    assert.match((await spoold(['fsck'])).stderr, /\[USAGE\] name a spool directory, or --ini FILE/)
  })
})

describe('spoold fsck mends what writers left', () => {
  it('that were killed in the middle, when the grace time is over', async () => {
    const spool = spoolDirectory()
    const writer = new TestProcess(process.execPath, [
      BIN,
      'enqueue',
      '--spooler',
      spool,
      '--body',
      '/dev/zero',
      'a=1',
    ])
    await until('it writes', () => leftIn(spool).some(name => name.startsWith('.spoold-')))
    writer.child.kill('SIGKILL')
    await writer.exited
    const [leftover = ''] = leftIn(spool)
    truncateSync(join(spool, leftover), 100)
    await isClean(spool) // it is young, by the default
    const ini = configure(spool, { 'spooler-sweep': 1 })
    await until('its grace is over', async () => (await fsck(spool, ...ini)).code === 1)
    await foundAndMended(spool, [`unfinished ${leftover}`], ...ini)
    assert.deepEqual(leftIn(spool), [])
  })

  it('a task that was promised under an id is published, not removed', async () => {
    const spool = spoolDirectory()
    const { stdout } = await spoold(['enqueue', '--spooler', spool, '--id', 'once', 'a=1'])
    const name = basename(stdout.trim())
    renameSync(join(spool, name), join(spool, `.spoold-${name}.tmp`))
    const ini = configure(spool, { 'spooler-sweep': 1 })
    await until('its grace is over', async () => (await fsck(spool, ...ini)).code === 1)
    await foundAndMended(spool, [`promised .spoold-${name}.tmp`], ...ini)
    assert.deepEqual(leftIn(spool), [name])
  })

  it('ids that are too old, and what is none', async () => {
    const spool = spoolDirectory()
    await spoold(['enqueue', '--spooler', spool, '--id', 'once', 'a=1'])
    const ids = join(spool, '.spoold/ids')
    const [id = ''] = readdirSync(ids)
    symlinkSync('/etc/passwd', join(ids, 'f'.repeat(64)))
    await foundAndMended(spool, [`id-broken .spoold/ids/${'f'.repeat(64)}`])
    const ini = configure(spool, { 'spooler-id-ttl': 1 })
    await until('its time is over', async () => (await fsck(spool, ...ini)).code === 1)
    await foundAndMended(spool, [`id-expired .spoold/ids/${id}`], ...ini)
    assert.equal(leftIn(spool).length, 1)
  })

  it('records and reasons that were not renamed, and probes', async () => {
    const spool = spoolDirectory()
    const litter = ['probe-99', 'records/a.json.99.tmp', 'dead/a.json.99.tmp']
    for (const room of ['', 'records', 'dead']) mkdirSync(join(spool, '.spoold', room), { mode: 0o700 })
    for (const name of litter) writeFileSync(join(spool, '.spoold', name), '', { mode: 0o600 })
    await isClean(spool)
    const ini = configure(spool, { 'spooler-sweep': 1 })
    await until('its grace is over', async () => (await fsck(spool, ...ini)).told.length === 3)
    await foundAndMended(
      spool,
      litter.map(name => `litter .spoold/${name}`),
      ...ini,
    )
  })
})

describe('spoold fsck mends records', () => {
  it('whose task is gone, also of names that are too long for a file', async () => {
    const spool = spoolDirectory()
    const names = ['a', `b${'x'.repeat(230)}`]
    for (const name of names) drop(spool, name)
    await runAndKill(spool, FAILS)
    const records = readdirSync(join(spool, '.spoold/records'))
    await isClean(spool)
    for (const name of names) unlinkSync(join(spool, name))
    await foundAndMended(
      spool,
      records.map(name => `record-orphan .spoold/records/${name}`),
    )
    assert.deepEqual(readdirSync(join(spool, '.spoold/records')), [])
  })

  it('that cannot be read, with the mark in the file', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    await runAndKill(spool, FAILS)
    const { mtimeMs } = statSync(path)
    assert.equal(readFileSync(path)[3], 1)
    truncateSync(join(spool, `.spoold/records/${NAME}.json`), 5)
    await foundAndMended(spool, [`record-broken .spoold/records/${NAME}.json`])
    assert.equal(readFileSync(path)[3], 0)
    assert.equal(
      Math.floor(statSync(path).mtimeMs / 1000),
      Math.floor(mtimeMs / 1000),
      'it waits as long as before',
    )
  })

  it('of another task of that name', async () => {
    const spool = spoolDirectory()
    drop(spool, 'report')
    await runAndKill(spool, FAILS)
    drop(spool, 'report')
    await foundAndMended(spool, ['record-stale .spoold/records/report.json'])
    assert.deepEqual(leftIn(spool), ['report'])
  })

  it('that are missing: a note, which does not fail', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    await runAndKill(spool, FAILS)
    unlinkSync(join(spool, `.spoold/records/${NAME}.json`))
    const { code, told } = await fsck(spool)
    assert.deepEqual([code, summary(told)], [0, [`note mark-unrecorded ${NAME}`]])
    const mended = await fsck('--repair', spool)
    assert.deepEqual([mended.code, summary(mended.told)], [0, [`mended mark-unrecorded ${NAME}`]])
    assert.equal(readFileSync(path)[3], 0)
    assert.ok(statSync(path).mtimeMs > Date.now())
    await isClean(spool)
  })
})

describe('spoold fsck settles runs that did not end', () => {
  it('as the next claim would: a crash is counted', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME, packet({ name: NAME }), LONG_AGO)
    readFileSync(path) // somebody looked: the byte is written from the first run on
    await runAndKill(spool, HANGS)
    assert.ok(((readFileSync(path)[3] ?? 0) & 0x80) !== 0)
    const [told] = await foundAndMended(spool, [`run-open ${NAME}`])
    assert.match(told?.detail ?? '', /^a crash was counted; it may run from 20/)
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => { JOURNAL('attempt ' + task.attempt); return task.SPOOL_OK }`,
    })
    await until('it has run', () => leftIn(spool).length === 0)
    assert.equal(daemon.journal().at(-1), 'attempt 3') // the suspected one counts, too
  })

  it('as the next claim would: what is delivered at most once is buried', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    await runAndKill(spool, HANGS, { 'spooler-delivery': 'at-most-once' })
    const [told] = await foundAndMended(spool, [`run-open ${NAME}`])
    assert.match(told?.detail ?? '', /^it is buried: its process died; it may have done its work/)
    assert.deepEqual(leftIn(spool), [])
    assert.equal(
      JSON.parse(readFileSync(join(spool, `.spoold/dead/${NAME}.json`), 'utf8')).reason,
      'outcome-unknown',
    )
  })

  it('by the limits of the configuration', async () => {
    const spool = spoolDirectory()
    readFileSync(drop(spool, NAME, packet({ name: NAME }), LONG_AGO))
    await runAndKill(spool, HANGS)
    const ini = configure(spool, { 'spooler-max-crashes': 1 })
    const [told] = await foundAndMended(spool, [`run-open ${NAME}`], ...ini)
    assert.match(told?.detail ?? '', /spooler-max-crashes/)
  })

  it('but leaves to a daemon what it runs', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const daemon = await startDaemon({ spool, handler: HANGS, ini: { 'spooler-delivery': 'at-most-once' } })
    await until('it runs', () => daemon.journal().length > 0)
    const { code, told } = await fsck('--repair', spool)
    assert.equal(code, 0)
    assert.deepEqual([...new Set(summary(told))], ['note in-use '])
    assert.ok(told.some(({ meaning }) => meaning.startsWith(`pid ${daemon.pid} (`)))
    assert.deepEqual(leftIn(spool), [NAME])
  })

  it('but leaves alone what a process holds by lease', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    const ini = { 'spooler-delivery': 'at-most-once', 'spooler-lock': 'lockfile' }
    await runAndKill(spool, HANGS, ini)
    await isClean(spool) // nobody can tell yet that the holder is dead
    const locks = join(spool, '.spoold/locks')
    const leases = readdirSync(locks)
    assert.ok(leases.length > 0)
    for (const name of leases) utimesSync(join(locks, name), LONG_AGO, LONG_AGO)
    await foundAndMended(spool, [
      ...leases.map(name => `lease-stale .spoold/locks/${name}`),
      `run-open ${NAME}`,
    ])
    assert.deepEqual(readdirSync(locks), [])
  })

  it('finishes a removal and a burial that were not possible', { skip: skipUnless('root') }, async () => {
    const spool = spoolDirectory()
    giveTo(spool, 0)
    chmodSync(spool, 0o777)
    for (const [name, vars] of Object.entries({ done: {}, dead: { bury: '1' } }))
      chownSync(drop(spool, name, packet(vars)), NOBODY, NOBODY)
    const daemon = await startDaemon({
      spool,
      handler: `
        import { existsSync } from 'node:fs'
        import { setTimeout } from 'node:timers/promises'
        export default async (env, task) => {
          JOURNAL(task.name)
          while (!existsSync(${JSON.stringify(join(dirname(spool), 'go'))})) await setTimeout(5)
          return env.bury ? { bury: 'asked for' } : task.SPOOL_OK
        }`,
      ini: { uid: NOBODY, gid: NOBODY, 'spooler-concurrency': 2 },
    })
    await until('both run', () => daemon.journal().length === 2)
    chmodSync(spool, 0o755) // nothing can be removed from it any more
    writeFileSync(join(dirname(spool), 'go'), '')
    await daemon.waitFor('cannot be removed')
    await daemon.waitFor('is to be buried, but cannot be')
    await killAll(daemon)
    chmodSync(spool, 0o777)
    utimesSync(join(spool, 'dead'), LONG_AGO, LONG_AGO)
    await foundAndMended(
      spool,
      ['done-left done', 'burial-open dead'],
      ...configure(spool, { uid: NOBODY, gid: NOBODY }),
    )
    assert.deepEqual(leftIn(spool), [])
    const { uid } = statSync(join(spool, '.spoold/dead/dead.json'))
    assert.equal(uid, NOBODY, 'what it makes belongs to whom the daemon runs as')
  })
})

describe('spoold fsck mends what is dead', () => {
  it('without a reason, and reasons without what is dead', async () => {
    const spool = spoolDirectory()
    const long = `${NAME}${'x'.repeat(220)}`
    for (const name of [NAME, 'other', long]) drop(spool, name)
    const daemon = await startDaemon({ spool, handler: `export default () => ({ bury: 'asked for' })` })
    await until('all are buried', () => leftIn(spool).length === 0)
    await killAll(daemon)
    await isClean(spool)
    const dead = join(spool, '.spoold/dead')
    unlinkSync(join(dead, `${NAME}.json`))
    unlinkSync(join(dead, 'other'))
    unlinkSync(join(dead, long))
    const [hashed = ''] = readdirSync(dead).filter(name => /^[0-9a-f]{40}\.json$/.test(name))
    await foundAndMended(spool, [
      `dead-unexplained .spoold/dead/${NAME}`,
      'dead-missing .spoold/dead/other.json',
      `dead-missing .spoold/dead/${hashed}`,
    ])
    assert.deepEqual(readdirSync(dead).sort(), [NAME, `${NAME}.json`])
    assert.equal(JSON.parse(readFileSync(join(dead, `${NAME}.json`), 'utf8')).reason, 'unknown')
  })
})

describe('spoold fsck mends rights', () => {
  it('of .spoold, and of what is closed to its own owner', async () => {
    const spool = spoolDirectory()
    drop(spool, NAME)
    drop(spool, 'closed')
    await runAndKill(spool, FAILS)
    chmodSync(join(spool, '.spoold'), 0o755)
    chmodSync(join(spool, 'closed'), 0o040)
    chmodSync(join(spool, '.spoold/records'), 0o500)
    chmodSync(join(spool, `.spoold/records/${NAME}.json`), 0)
    const rights = ['.spoold', '.spoold/records', `.spoold/records/${NAME}.json`, 'closed']
    if (process.getuid?.() === 0) {
      giveTo(spool, NOBODY) // to root nothing is closed
      for (const path of readdirSync(spool, { recursive: true }))
        chownSync(join(spool, String(path)), NOBODY, NOBODY)
    }
    await foundAndMended(
      spool,
      rights.map(path => `rights ${path}`),
    )
    assert.equal(statSync(join(spool, 'closed')).mode & 0o777, 0o640)
  })

  it('of what belongs to another user, by the command that it prints as well', {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    giveTo(spool, NOBODY)
    const paths = ["it's", '5/a'].map(name => drop(spool, name))
    const expected = ["rights it's", 'rights 5/a']
    await foundAndMended(spool, expected, ...configure(spool, { 'spooler-ordered': true }))
    for (const path of paths) assert.equal(statSync(path).uid, NOBODY)
    for (const path of paths) chownSync(path, 0, 0)
    const { told } = await fsck(spool)
    for (const { kind, mend } of told)
      if (kind === 'rights') assert.equal(spawnSync('sh', ['-c', mend]).status, 0)
    await isClean(spool, ...configure(spool, { 'spooler-ordered': true }))
  })

  it('but not of a file with a name elsewhere', { skip: skipUnless('root') }, async () => {
    const spool = spoolDirectory()
    giveTo(spool, NOBODY)
    const outside = join(dirname(spool), 'outside')
    writeFileSync(outside, packet({}), { mode: 0o600 })
    linkSync(outside, join(spool, NAME))
    const { code, told } = await fsck('--repair', spool)
    assert.deepEqual([code, summary(told)], [1, [`left rights ${NAME}`]])
    assert.match(told[0]?.detail ?? '', /^it has 2 names/)
    assert.equal(statSync(outside).uid, 0)
  })

  it('puts aside what stands in the place of .spoold, and does not go through a link', async () => {
    for (const room of ['.spoold', '.spoold/records', '.spoold/dead']) {
      const spool = spoolDirectory()
      const outside = join(dirname(spool), 'outside')
      mkdirSync(join(outside, 'records'), { recursive: true, mode: 0o755 })
      mkdirSync(join(outside, 'dead'))
      for (const name of ['gone.json', 'records/gone.json', 'dead/gone'])
        writeFileSync(join(outside, name), '{"attempts":1,"crashes":1}')
      if (room !== '.spoold') mkdirSync(join(spool, '.spoold'), { mode: 0o700 })
      symlinkSync(outside, join(spool, room))
      const before = pictureOf(outside)
      await foundAndMended(spool, [`state-directory ${room}`])
      assert.deepEqual(pictureOf(outside), before)
      assert.ok(lstatSync(join(spool, `${room}.old`)).isSymbolicLink())
    }
  })
})

describe('spoold fsck knows what nobody visits', () => {
  it('with the configuration exactly, without it by the name', async () => {
    const spool = spoolDirectory()
    for (const directory of ['5', 'urgent', 'mine', 'empty']) mkdirSync(join(spool, directory))
    drop(spool, '5/task')
    drop(spool, `urgent/${NAME}`)
    drop(spool, 'mine/notes.txt')
    symlinkSync(join(spool, 'urgent'), join(spool, 'link'))
    assert.deepEqual(summary((await fsck(spool)).told), ['found unvisited urgent', 'note unvisited 5'])
    const ordered = configure(spool, { 'spooler-ordered': true })
    const { code, told } = await fsck(spool, ...ordered)
    assert.deepEqual([code, summary(told)], [1, ['found unvisited urgent']])
    assert.equal((await fsck('--repair', spool, ...ordered)).code, 1)
    assert.equal(spawnSync('sh', ['-c', told[0]?.mend ?? '']).status, 0)
    await isClean(spool, ...ordered)
    assert.deepEqual(
      leftIn(spool).filter(name => name.endsWith(NAME)),
      [NAME],
    )
    assert.deepEqual(summary((await fsck(...configure(spool))).told), ['found unvisited 5'])
  })
})

describe('spoold fsck --repair beside a daemon under load', () => {
  it('loses nothing, and mends nothing that is alive', async () => {
    const spool = spoolDirectory()
    const tasks = 3000
    for (let n = 0; n < tasks; n++)
      drop(spool, `task-${n}`, packet({ n: String(n), ...(n % 500 === 7 ? { kill: '1' } : {}) }))
    const daemon = await startDaemon({
      spool,
      handler: `
        import { setTimeout } from 'node:timers/promises'
        export default async (env, task) => {
          if (env.kill && task.attempt < 3) process.kill(process.pid, 'SIGKILL')
          if (task.attempt === 1 && env.n % 2) return { retry: '200ms' }
          if (env.n % 100 === 3) return { bury: 'asked for' }
          await setTimeout(2)
          JOURNAL(env.n)
          return task.SPOOL_OK
        }`,
      ini: {
        'spooler-processes': 2,
        'spooler-concurrency': 4,
        'spooler-frequency': 1,
        'spooler-quiet': true,
      },
    })
    const told: Told[] = []
    let runs = 0
    const isOver = () => leftIn(spool).length === 0
    for (; !isOver() && runs < 200; runs++) told.push(...(await fsck('--repair', spool)).told)
    await until('all have run', isOver, 60_000)
    assert.ok(runs > 3, `only ${runs} runs`)
    assert.deepEqual([...new Set(summary(told))], ['note in-use '])
    const done = new Set(daemon.journal())
    const buried = readdirSync(join(spool, '.spoold/dead')).filter(name => !name.endsWith('.json'))
    assert.equal(done.size + buried.length, tasks)
    await killAll(daemon)
    await isClean(spool)
  })
})
