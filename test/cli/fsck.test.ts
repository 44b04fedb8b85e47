import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
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
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { inProcess, spoold } from '../helpers/cli.js'
import { startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import {
  configure,
  FAILS,
  foundAndRepaired,
  fsck,
  giveTo,
  isClean,
  killAll,
  NAME,
  NOBODY,
  pictureOf,
  runAndKill,
  summary,
} from '../helpers/fsck.js'
import { TestProcess } from '../helpers/process.js'
import { skipUnless } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { BIN, spoolDirectory } from '../helpers/workspace.js'

describe('spoold fsck', () => {
  it('reports no finding for an empty spool, waiting tasks, and failed tasks that wait for a retry', async () => {
    const spool = spoolDirectory()
    await isClean(spool)
    drop(spool, 'failed')
    await runAndKill(spool, FAILS)
    drop(spool, 'due')
    drop(spool, 'later', packet({ at: '9999999999' }))
    const before = pictureOf(spool)
    await isClean(spool)
    assert.deepEqual(pictureOf(spool), before)
    const { stdout, code } = await inProcess(['fsck', spool])
    assert.deepEqual([stdout, code], [`${spool}: clean\n`, 0])
  })

  it('prints for people what it found, where, what it means and what fixes it', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '.spoold'), { mode: 0o755 })
    const { stdout } = await inProcess(['fsck', spool])
    assert.equal(
      stdout,
      `found rights .spoold: owner ${process.getuid?.()}:${process.getgid?.()}, mode 0755: it has to belong to uid ${process.getuid?.()}, with mode 0700; to fix it: set mode 0700: --repair does\n${spool}: 1 found\n`,
    )
  })

  it('refuses a path that does not exist, and a command line that names no spool', async () => {
    const nowhere = await inProcess(['fsck', '/nowhere'])
    assert.match(
      nowhere.stderr,
      /^spoold: \[SPOOL_UNUSABLE\] \/nowhere does not exist; name a spool directory$/m,
    )
    assert.equal(nowhere.code, 1)
    assert.match((await inProcess(['fsck'])).stderr, /\[USAGE\] name a spool directory, or --ini FILE/)
  })
})

describe('spoold fsck, on what writers left', () => {
  it('removes the file of a writer that was killed in the middle, once the grace time is over', async () => {
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
    await until('the writer writes', () => leftIn(spool).some(name => name.startsWith('.spoold-')))
    writer.child.kill('SIGKILL')
    await writer.exited
    const [leftover = ''] = leftIn(spool)
    truncateSync(join(spool, leftover), 100)
    await isClean(spool) // it is young, by the default
    const ini = configure(spool, { 'spooler-sweep': 1 })
    await until('the grace time is over', async () => (await fsck(spool, ...ini)).code === 1)
    await foundAndRepaired(spool, [`unfinished ${leftover}`], ...ini)
    assert.deepEqual(leftIn(spool), [])
  })

  it('publishes a task that was promised under an id, instead of removing it', async () => {
    const spool = spoolDirectory()
    const { stdout } = await spoold(['enqueue', '--spooler', spool, '--id', 'once', 'a=1'])
    const name = basename(stdout.trim())
    renameSync(join(spool, name), join(spool, `.spoold-${name}.tmp`))
    const ini = configure(spool, { 'spooler-sweep': 1 })
    await until('the grace time is over', async () => (await fsck(spool, ...ini)).code === 1)
    await foundAndRepaired(spool, [`promised .spoold-${name}.tmp`], ...ini)
    assert.deepEqual(leftIn(spool), [name])
  })

  it('removes ids that are too old, and a link in the place of an id', async () => {
    const spool = spoolDirectory()
    await spoold(['enqueue', '--spooler', spool, '--id', 'once', 'a=1'])
    const ids = join(spool, '.spoold/ids')
    const [id = ''] = readdirSync(ids)
    symlinkSync('/etc/passwd', join(ids, 'f'.repeat(64)))
    await foundAndRepaired(spool, [`id-broken .spoold/ids/${'f'.repeat(64)}`])
    const ini = configure(spool, { 'spooler-id-ttl': 1 })
    await until('the time of the id is over', async () => (await fsck(spool, ...ini)).code === 1)
    await foundAndRepaired(spool, [`id-expired .spoold/ids/${id}`], ...ini)
    assert.equal(leftIn(spool).length, 1)
  })

  it('removes records and reasons that were not renamed, and probes, once the grace time is over', async () => {
    const spool = spoolDirectory()
    const litter = ['probe-99', 'hide.99.tmp', 'records/a.json.99.tmp', 'dead/a.json.99.tmp']
    for (const room of ['', 'records', 'dead']) mkdirSync(join(spool, '.spoold', room), { mode: 0o700 })
    for (const name of litter) writeFileSync(join(spool, '.spoold', name), '', { mode: 0o600 })
    await isClean(spool)
    const ini = configure(spool, { 'spooler-sweep': 1 })
    await until(
      'the grace time is over',
      async () => (await fsck(spool, ...ini)).findings.length === litter.length,
    )
    await foundAndRepaired(
      spool,
      litter.map(name => `litter .spoold/${name}`),
      ...ini,
    )
  })
})

describe('spoold fsck, on records', () => {
  it('removes a record whose task is gone, even if its name is too long for a file', async () => {
    const spool = spoolDirectory()
    const names = ['a', `b${'x'.repeat(230)}`]
    for (const name of names) drop(spool, name)
    await runAndKill(spool, FAILS)
    const records = readdirSync(join(spool, '.spoold/records'))
    await isClean(spool)
    for (const name of names) unlinkSync(join(spool, name))
    await foundAndRepaired(
      spool,
      records.map(name => `record-orphan .spoold/records/${name}`),
    )
    assert.deepEqual(readdirSync(join(spool, '.spoold/records')), [])
  })

  it('removes a record that cannot be read, and clears its bit in the state byte', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    await runAndKill(spool, FAILS)
    const { mtimeMs } = statSync(path)
    assert.equal(readFileSync(path)[3], 1)
    truncateSync(join(spool, `.spoold/records/${NAME}.json`), 5)
    await foundAndRepaired(spool, [`record-broken .spoold/records/${NAME}.json`])
    assert.equal(readFileSync(path)[3], 0)
    assert.equal(
      Math.floor(statSync(path).mtimeMs / 1000),
      Math.floor(mtimeMs / 1000),
      'it waits as long as before',
    )
  })

  it('removes a record that belongs to another task of the same name', async () => {
    const spool = spoolDirectory()
    drop(spool, 'report')
    await runAndKill(spool, FAILS)
    drop(spool, 'report')
    await foundAndRepaired(spool, ['record-stale .spoold/records/report.json'])
    assert.deepEqual(leftIn(spool), ['report'])
  })

  it('notes a missing record without failing, and clears its bit in the state byte with --repair', async () => {
    const spool = spoolDirectory()
    const path = drop(spool, NAME)
    await runAndKill(spool, FAILS)
    unlinkSync(join(spool, `.spoold/records/${NAME}.json`))
    const { code, findings } = await fsck(spool)
    assert.deepEqual([code, summary(findings)], [0, [`note mark-unrecorded ${NAME}`]])
    const repaired = await fsck('--repair', spool)
    assert.deepEqual([repaired.code, summary(repaired.findings)], [0, [`repaired mark-unrecorded ${NAME}`]])
    assert.equal(readFileSync(path)[3], 0)
    assert.ok(statSync(path).mtimeMs > Date.now())
    await isClean(spool)
  })
})

describe('spoold fsck, on dead letters', () => {
  it('writes a missing reason, and removes reasons whose dead letter is gone', async () => {
    const spool = spoolDirectory()
    const long = `${NAME}${'x'.repeat(220)}`
    for (const name of [NAME, 'other', long]) drop(spool, name)
    const daemon = await startDaemon({ spool, handler: `export default () => ({ bury: 'asked for' })` })
    await until('all tasks are buried', () => leftIn(spool).length === 0)
    await killAll(daemon)
    await isClean(spool)
    const dead = join(spool, '.spoold/dead')
    unlinkSync(join(dead, `${NAME}.json`))
    unlinkSync(join(dead, 'other'))
    unlinkSync(join(dead, long))
    const [hashed = ''] = readdirSync(dead).filter(name => /^[0-9a-f]{40}\.json$/.test(name))
    await foundAndRepaired(spool, [
      `dead-unexplained .spoold/dead/${NAME}`,
      'dead-missing .spoold/dead/other.json',
      `dead-missing .spoold/dead/${hashed}`,
    ])
    assert.deepEqual(readdirSync(dead).sort(), [NAME, `${NAME}.json`])
    assert.equal(JSON.parse(readFileSync(join(dead, `${NAME}.json`), 'utf8')).reason, 'unknown')
  })
})

describe('spoold fsck, on rights', () => {
  it('repairs those of .spoold, and of files that are closed to their own owner', async () => {
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
      giveTo(spool, NOBODY) // nothing is closed to root
      for (const path of readdirSync(spool, { recursive: true }))
        chownSync(join(spool, String(path)), NOBODY, NOBODY)
    }
    await foundAndRepaired(
      spool,
      rights.map(path => `rights ${path}`),
    )
    assert.equal(statSync(join(spool, 'closed')).mode & 0o777, 0o640)
  })

  it("repairs those of another user's files, and advises no command that could be led to another file", {
    skip: skipUnless('root'),
  }, async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    giveTo(spool, NOBODY)
    const paths = ["it's", '5/a'].map(name => drop(spool, name))
    const expected = ["rights it's", 'rights 5/a']
    await foundAndRepaired(spool, expected, ...configure(spool, { 'spooler-ordered': true }))
    for (const path of paths) assert.equal(statSync(path).uid, NOBODY)
    for (const path of paths) chownSync(path, 0, 0)
    const { findings } = await fsck(spool)
    const fixes = findings.flatMap(({ kind, fix }) => (kind === 'rights' ? [fix] : []))
    assert.deepEqual(fixes, Array(2).fill(`set owner ${NOBODY}:${NOBODY}, mode 0600: --repair does, as root`))
  })

  it('leaves alone a file that has a hard link elsewhere', { skip: skipUnless('root') }, async () => {
    const spool = spoolDirectory()
    giveTo(spool, NOBODY)
    const outside = join(dirname(spool), 'outside')
    writeFileSync(outside, packet({}), { mode: 0o600 })
    linkSync(outside, join(spool, NAME))
    const { code, findings } = await fsck('--repair', spool)
    assert.deepEqual([code, summary(findings)], [1, [`left rights ${NAME}`]])
    assert.match(findings[0]?.detail ?? '', /^it has 2 names/)
    assert.equal(statSync(outside).uid, 0)
  })

  it('reports only once that it cannot enter a spool', { skip: skipUnless('root') }, async () => {
    const spool = spoolDirectory()
    chownSync(spool, NOBODY, NOBODY) // a user who cannot enter the directory above
    const { code, findings } = await fsck('--repair', spool)
    assert.deepEqual([code, summary(findings)], [1, ['left unchecked ']])
    assert.match(findings[0]?.meaning ?? '', /EACCES/)
  })

  it('puts aside what stands in the place of .spoold, records or dead, and goes through no link', async () => {
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
      await foundAndRepaired(spool, [`state-directory ${room}`])
      assert.deepEqual(pictureOf(outside), before)
      assert.ok(lstatSync(join(spool, `${room}.old`)).isSymbolicLink())
    }
    const spool = spoolDirectory()
    writeFileSync(join(spool, '.spoold'), '')
    await foundAndRepaired(spool, ['state-directory .spoold'])
  })
})

describe('spoold fsck, on directories that no daemon visits', () => {
  it('knows them exactly with the configuration, and by their names without it', async () => {
    const spool = spoolDirectory()
    for (const directory of ['5', 'urgent', 'mine', 'empty']) mkdirSync(join(spool, directory))
    drop(spool, '5/task')
    drop(spool, `urgent/${NAME}`)
    drop(spool, 'mine/notes.txt')
    symlinkSync(join(spool, 'urgent'), join(spool, 'link'))
    assert.deepEqual(summary((await fsck(spool)).findings), ['found unvisited urgent', 'note unvisited 5'])
    const ordered = configure(spool, { 'spooler-ordered': true })
    const { code, findings } = await fsck(spool, ...ordered)
    assert.deepEqual([code, summary(findings)], [1, ['found unvisited urgent']])
    assert.equal((await fsck('--repair', spool, ...ordered)).code, 1)
    assert.equal(spawnSync('sh', ['-c', findings[0]?.fix ?? '']).status, 0)
    await isClean(spool, ...ordered)
    assert.deepEqual(
      leftIn(spool).filter(name => name.endsWith(NAME)),
      [NAME],
    )
    assert.deepEqual(summary((await fsck(...configure(spool))).findings), ['found unvisited 5'])
  })
})

describe('spoold fsck, on a held task', () => {
  it('keeps the hold when the record is behind a link', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '1'))
    drop(spool, `1/${NAME}`)
    const task = join(spool, '1', NAME)
    assert.equal((await inProcess(['hold', task])).code, 0)
    const records = join(spool, '.spoold/records')
    renameSync(join(records, '1'), join(dirname(spool), 'elsewhere'))
    symlinkSync(join(dirname(spool), 'elsewhere'), join(records, '1'))
    assert.match((await spoold(['fsck', '--repair', spool])).stdout, /: clean, \d noted\n$/)
    assert.match((await spoold(['ls', spool])).stdout, /\nheld /)
  })
})
