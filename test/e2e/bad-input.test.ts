import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Report } from '#src/base/task/report.js'
import { ownState, type Past, pastOf } from '#src/engines/spool/state-byte.js'
import { MODIFIER2_OFFSET } from '#src/formats/protocol/header.js'
import { startDaemon, writeIni } from '../helpers/daemon.js'
import { openEngine } from '../helpers/engine.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { BIN, FIXTURES, spoolDirectory, workspace } from '../helpers/workspace.js'

const NAMED = `export default (env, task) => { JOURNAL(task.name); return task.SPOOL_OK }`

describe('damaged task files', () => {
  it(`are left byte for byte, and packets among them are run: ${isLong ? 20_000 : 2000} random and mutated ones`, async () => {
    const spool = spoolDirectory()
    const good = packet({ hello: 'world', at: '1600000000' }, 'body')
    const mutated = fc
      .array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
      .map(changes => {
        const bytes = Buffer.from(good)
        for (const [at, byte] of changes) if (at !== MODIFIER2_OFFSET) bytes[at] = byte
        return bytes
      })
    const random = fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes))
    const cut = fc.nat(good.length).map(end => good.subarray(0, end))
    const files = new Map<string, Buffer>()
    for (const [i, bytes] of fc.sample(fc.oneof(mutated, random, cut), isLong ? 20_000 : 2000).entries()) {
      const name = `uwsgi_spoolfile_on_${i}`
      files.set(name, bytes)
      drop(spool, name, bytes)
    }
    const daemon = await startDaemon({
      spool,
      handler: NAMED,
      // Nothing is buried, however slow the machine is.
      ini: {
        'spooler-quiet': true,
        'spooler-processes': 2,
        'spooler-frequency': 1000,
        'spooler-grace': 3600,
      },
    })
    drop(spool, 'zzz-last')
    await until('the last task has run, and all others were looked at', () =>
      daemon.journal().includes('zzz-last'),
    )
    const engine = await openEngine(spool)
    await until('no task is left that could run, or still runs', () =>
      leftIn(spool).every(name => {
        const claim = engine.claim(name)
        if ('kind' in claim) return claim.kind !== 'locked'
        engine.release(claim)
        return false
      }),
    )
    const ran = new Set(daemon.journal())
    for (const [name, bytes] of files) {
      const path = join(spool, name)
      if (ran.has(name)) await until(`${name} has run, and is gone`, () => !existsSync(path))
      else assert.deepEqual(readFileSync(path), bytes)
    }
    assert.ok(ran.size > 100 && ran.size < files.size, `${ran.size} ran`)
    assert.ok(daemon.isRunning)
  })

  it('with each value of modifier2 are treated as the table of state bytes says', async () => {
    const spool = spoolDirectory()
    const engine = await openEngine(spool)
    const expected: Record<Past, Report['kind']> = {
      none: 'untouched',
      'died-beside': 'untouched',
      'died-alone': 'untouched', // after its first crash a task runs again at once
      'died-once': 'set-aside',
      'to-bury': 'set-aside',
      done: 'gone',
    }
    for (let modifier2 = 0; modifier2 < 256; modifier2++) {
      const bytes = packet({ n: String(modifier2) })
      bytes[MODIFIER2_OFFSET] = modifier2
      const name = `uwsgi_spoolfile_on_${modifier2}`
      const path = drop(spool, name, bytes, 1_600_000_000)
      const claim = engine.claim(name)
      const { kind } = 'kind' in claim ? claim : engine.release(claim)
      assert.equal(kind, expected[pastOf(ownState(modifier2))], `modifier2 ${modifier2}`)
      assert.deepEqual(leftIn(spool), kind === 'untouched' ? [name] : [])
      rmSync(path, { force: true })
    }
  })

  it('are neither run nor removed when golden tasks are truncated', async () => {
    const spool = spoolDirectory()
    const engine = await openEngine(spool)
    const asked: Array<{ asked: Record<string, string> }> = JSON.parse(
      readFileSync(join(FIXTURES, 'golden/asked.json'), 'utf8'),
    )
    let cuts = 0
    for (const { asked: dictionary } of asked) {
      const { body: _, ...vars } = dictionary
      const bytes = packet(
        Object.fromEntries(Object.entries(vars).map(([key, value]) => [key, Buffer.from(value, 'base64')])),
      )
      const path = drop(spool, 'uwsgi_spoolfile_on_cut', bytes, 1_600_000_000)
      const whole = engine.claim('uwsgi_spoolfile_on_cut')
      assert.ok(!('kind' in whole))
      engine.release(whole)
      const step = isLong ? 1 : Math.ceil(bytes.length / 150)
      for (let end = bytes.length - 1; end >= 0; end -= step) {
        truncateSync(path, end)
        const refusal = engine.claim('uwsgi_spoolfile_on_cut')
        assert.deepEqual(['kind' in refusal && refusal.kind, statSync(path).size], ['incomplete', end])
        cuts++
      }
    }
    assert.ok(cuts > 5000, `${cuts} cuts`)
  })
})

describe('a priority directory that cannot be read', () => {
  it('is reported once, and does not keep other tasks waiting', { skip: skipUnless('root') }, async () => {
    const spool = spoolDirectory()
    chmodSync(dirname(spool), 0o777)
    chmodSync(spool, 0o777)
    for (const directory of ['1', '2']) mkdirSync(join(spool, directory), { mode: 0o777 })
    for (const directory of ['1', '2']) chmodSync(join(spool, directory), 0o777)
    for (const name of ['1/hidden', '2/seen']) chmodSync(drop(spool, name), 0o666)
    chmodSync(join(spool, '1'), 0)
    const daemon = await startDaemon({
      spool,
      handler: NAMED,
      ini: { 'spooler-ordered': true, 'spooler-frequency': 1, uid: 65534, gid: 65534 },
    })
    await until('the task of the other directory has run', () => !existsSync(join(spool, '2/seen')))
    await daemon.waitFor('1/ cannot be listed: EACCES')
    chmodSync(join(spool, '1'), 0o777)
    await until('the task runs once its directory can be read', () => !existsSync(join(spool, '1/hidden')))
    assert.equal(daemon.output.split('cannot be listed').length, 2)
  })
})

describe('a full disk', () => {
  it('under the spool: tasks run, failed ones are kept and tried again', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    const disk = smallDisk('size=400k')
    const spool = join(disk, 'spool')
    mkdirSync(spool)
    const [bad, good] = [drop(spool, 'bad'), drop(spool, 'good')]
    for (let i = 0; i < 20; i++) drop(spool, `bulk-${i}`, packet({ a: 'b' }, Buffer.alloc(4000)))
    const journal = join(workspace(), 'journal')
    const handler = `export default (env, task) => {
        appendFileSync(${JSON.stringify(journal)}, task.name + '\\n')
        if (task.name === 'bad') throw new Error('x'.repeat(5000))
        return task.SPOOL_OK
      }`
    const daemon = await startDaemon({ spool, handler, ini: { 'spooler-frequency': 1 } })
    try {
      for (;;) writeFileSync(join(disk, `fill-${Math.random()}`), Buffer.alloc(4096))
    } catch {} // ENOSPC: the disk is full
    await until(
      'the failing task was tried three times',
      () => lines(journal).filter(line => line === 'bad').length >= 3,
    )
    await until('the good tasks are gone', () => leftIn(spool).join() === 'bad')
    assert.ok(existsSync(bad) && !existsSync(good))
    assert.ok(daemon.isRunning)
  })

  const lines = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [])
})

describe('64 file descriptors', () => {
  it('are enough for two workers and 500 tasks', async () => {
    const spool = spoolDirectory()
    for (let i = 0; i < 500; i++) drop(spool, `t${i}`)
    const daemon = await startDaemon({ spool, isUnready: true })
    daemon.child.kill('SIGKILL')
    await daemon.exited
    writeIni(daemon.iniFile, {
      spooler: spool,
      'spooler-import': daemon.handlerFile,
      'spooler-processes': 2,
      'spooler-frequency': 1,
    })
    const limited = new TestProcess('sh', [
      '-c',
      `ulimit -n 64; exec ${process.execPath} ${BIN} ${daemon.iniFile}`,
    ])
    await limited.waitFor('is running')
    drop(spool, 'later')
    await until('all tasks have run', () => leftIn(spool).length === 0)
    limited.child.kill('SIGTERM')
    assert.equal(await limited.code(), 0)
  })
})

describe('an ini that is not UTF-8', () => {
  const latin1 = (lines: readonly string[]) => {
    const directory = workspace()
    const ini = join(directory, 'app.ini')
    writeFileSync(ini, Buffer.from(['[uwsgi]', ...lines, ''].join('\n'), 'latin1'))
    return { directory, ini }
  }

  it('is refused with the line and its bytes if an option is affected, and no directory is made', async () => {
    const { directory, ini } = latin1([
      '# caf\xe9',
      'spooler = %d/sp\xe9',
      'env = LATIN=caf\xe9',
      'spooler-exec = true',
    ])
    for (const args of [['check', ini], [ini]]) {
      const command = new TestProcess(process.execPath, [BIN, ...args])
      assert.notEqual(await command.code(), 0)
      assert.match(
        command.output,
        /app\.ini:3: error: expected UTF-8, got spooler = \S+\/sp\\xe9: write the line in UTF-8/,
      )
      assert.match(command.output, /app\.ini:4: error: expected UTF-8, got env = LATIN=caf\\xe9/)
    }
    assert.deepEqual(readdirSync(directory), ['app.ini'])
  })

  it('keeps the bytes of options that only handlers see', { skip: skipUnless('python3') }, async () => {
    const { directory, ini } = latin1([
      'spooler = %d/sp',
      'static-map = /caf\xe9',
      'what-ever = \xe9 \xff',
      'spooler-python-import = keeps',
      'pythonpath = %d',
    ])
    const lines = [
      'import os, uwsgi',
      'def run(env):',
      "    with open(os.path.dirname(__file__) + '/seen', 'wb') as seen: seen.write(uwsgi.opt['what-ever'] + uwsgi.opt['static-map'])",
      '    return uwsgi.SPOOL_OK',
      'uwsgi.spooler = run',
    ]
    writeFileSync(join(directory, 'keeps.py'), `${lines.join('\n')}\n`)
    mkdirSync(join(directory, 'sp'))
    drop(join(directory, 'sp'), 'task')
    const command = new TestProcess(process.execPath, [BIN, '--drain', ini])
    assert.equal(await command.code(), 0, command.output)
    assert.equal(readFileSync(join(directory, 'seen'), 'latin1'), '\xe9 \xff/caf\xe9')
  })

  it('is read if only comments and other sections are not UTF-8', async () => {
    const { ini } = latin1([
      '; \xe4\xf6\xfc'.repeat(20),
      'spooler = %d/sp',
      'spooler-exec = true',
      '[other]',
      'a = \xe9',
    ])
    const command = new TestProcess(process.execPath, [BIN, 'check', ini])
    assert.equal(await command.code(), 0, command.output)
    assert.match(command.output, /the configuration is good/)
  })
})
