import assert from 'node:assert/strict'
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { OK, RETRY } from '#src/base/task/outcome.js'
import { sweepRecords, sweepSpool } from '#src/engines/spool/admin/sweep.js'
import { toDictionary } from '#src/formats/protocol/vars.js'
import { enqueue } from '#src/index.js'
import { tryHold } from '#src/system/libc.js'
import { startDaemon } from '../../helpers/daemon.js'
import { beginOf, openEngine } from '../../helpers/engine.js'
import { drop, leftIn, packet } from '../../helpers/files.js'
import { errnoError, hookFs } from '../../helpers/fs-hooks.js'
import { TestProcess } from '../../helpers/process.js'
import { until } from '../../helpers/until.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const LEFTOVER = '.spoold-uwsgi_spoolfile_on_dead_1_1_1_1_1.tmp'
const sweep = (spool: string, graceMs: number) => sweepSpool({ spool, graceMs, idTtlMs: 0 })
const hiddenIn = (spool: string) => readdirSync(spool).filter(name => name.startsWith('.spoold-done-'))
/** Waits until files are older than `ms`, because a ctime cannot be set. */
const untilOlder = (ms: number) => new Promise(resolve => setTimeout(resolve, ms + 20))

describe('a sweep', () => {
  it('removes what dead writers left, in the spool and in its priorities, and nothing else', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5/3'), { recursive: true })
    mkdirSync(join(spool, 'mine'))
    const kept = [
      '.hidden',
      '.spoold-x',
      'x.tmp',
      'uwsgi_spoolfile_on_a',
      'uwsgi_spoolfile_on_empty',
      `mine/${LEFTOVER}`,
    ]
    for (const name of [...kept, LEFTOVER, `5/${LEFTOVER}`, `5/3/${LEFTOVER}`])
      writeFileSync(join(spool, name), name.includes('empty') ? '' : 'x')
    symlinkSync('/etc/passwd', join(spool, '.spoold-link.tmp'))
    utimesSync(join(spool, LEFTOVER), 4e9, 4e9) // the time at which it was to run says nothing of its age
    await untilOlder(10)
    assert.equal((await sweep(spool, 10)).removed, 3)
    assert.deepEqual(leftIn(spool), [...kept, '.spoold-link.tmp'].sort())
  })

  it('gives back a task that took the name of a finished one if the worker died before it could do so', async () => {
    const spool = spoolDirectory()
    drop(spool, 'report', packet({ n: 'ran' }))
    const engine = await openEngine(spool)
    const claim = beginOf(engine, 'report')
    const calls = ['renameSync', 'linkSync', 'unlinkSync'] as const
    let isMoved = false
    const unhook = hookFs(calls, (name, [path], proceed) => {
      if (isMoved) throw errnoError('EIO', name, path) // as if it had died
      if (String(path).endsWith('/report')) {
        drop(spool, 'report', packet({ n: 'new' }))
        isMoved = true
      }
      return proceed()
    })
    engine.settle(claim, OK, 5)
    unhook()
    assert.equal(hiddenIn(spool).length, 1)
    await untilOlder(5)
    const swept = await sweep(spool, 1)
    assert.deepEqual([swept.removed, swept.givenBack], [0, 1])
    const [name = ''] = leftIn(spool)
    assert.match(name, /^uwsgi_spoolfile_on_/)
    assert.equal(toDictionary(beginOf(engine, name).vars).n, 'new')
  })

  it('removes a finished task if the worker died before it could do so', async () => {
    const spool = spoolDirectory()
    drop(spool, 'report')
    const engine = await openEngine(spool)
    const claim = beginOf(engine, 'report')
    const unhook = hookFs(['unlinkSync'], (name, [path]) => {
      throw errnoError('EIO', name, path)
    })
    engine.settle(claim, OK, 5)
    unhook()
    assert.equal(hiddenIn(spool).length, 1)
    await untilOlder(5)
    const swept = await sweep(spool, 1)
    assert.deepEqual([swept.removed, swept.givenBack, hiddenIn(spool)], [1, 0, []])
  })

  it('goes on when somebody else removes an id first', async () => {
    const spool = spoolDirectory()
    for (const id of ['a', 'b']) await enqueue({ n: id }, { spooler: spool, id, sync: false })
    await untilOlder(5)
    let isFirst = true
    const unhook = hookFs(['unlinkSync'], (_name, _args, proceed) => {
      if (isFirst) proceed()
      isFirst = false
      return proceed()
    })
    const { forgotten } = await sweepSpool({ spool, graceMs: 0, idTtlMs: 1 })
    unhook()
    assert.equal(forgotten, 1)
    assert.deepEqual(leftIn(join(spool, '.spoold/ids')), [])
  })

  it('leaves young files alone, and all files when it is off', async () => {
    const spool = spoolDirectory()
    writeFileSync(join(spool, LEFTOVER), 'x')
    utimesSync(join(spool, LEFTOVER), 1, 1)
    await sweep(spool, 60_000)
    await sweep(spool, 0)
    assert.deepEqual(leftIn(spool), [LEFTOVER])
  })

  it('leaves a file alone while a writer holds it, however old it is', async () => {
    const spool = spoolDirectory()
    writeFileSync(join(spool, LEFTOVER), 'x')
    const fd = openSync(join(spool, LEFTOVER), 'r+')
    assert.ok(await tryHold(fd))
    await untilOlder(5)
    assert.equal((await sweep(spool, 1)).removed, 0)
    closeSync(fd)
    assert.equal((await sweep(spool, 1)).removed, 1)
  })

  it('does not disturb a writer whose body comes slowly', async () => {
    const spool = spoolDirectory()
    let sweeps = 0
    const body = Readable.from(
      (async function* () {
        for (let i = 0; i < 5; i++) {
          yield Buffer.from('part ')
          await untilOlder(2)
          sweeps += (await sweep(spool, 1)).removed + 1
        }
      })(),
    )
    const { path } = await enqueue({ a: 1 }, { spooler: spool, body })
    assert.equal(sweeps, 5, 'five sweeps, nothing removed')
    assert.deepEqual(leftIn(spool), [path.slice(spool.length + 1)])
  })

  it('does not disturb a program whose body comes slowly and that loads no libc, because it renews the ctime of its file', async () => {
    const spool = spoolDirectory()
    const program = new TestProcess(process.execPath, [
      '--input-type=module',
      '-e',
      `
      import { readFileSync } from 'node:fs'
      import { enqueue } from ${JSON.stringify(import.meta.resolve('#src/index.js'))}
      const body = (async function* () {
        yield Buffer.from('begun')
        console.log('waits')
        await new Promise(resolve => process.once('SIGUSR2', resolve))
      })()
      const { path } = await enqueue({ a: 1 }, { spooler: ${JSON.stringify(spool)}, body })
      console.log(path, /koffi/.test(readFileSync('/proc/self/maps', 'latin1')))
      process.exit()`,
    ])
    await program.waitFor('waits')
    const [draft = ''] = leftIn(spool)
    const { ctimeMs } = statSync(join(spool, draft))
    const renewedMs = await until('the program renews the ctime of its file', () => {
      const now = statSync(join(spool, draft)).ctimeMs
      return now > ctimeMs ? now : undefined
    })
    const graceMs = Date.now() - (ctimeMs + renewedMs) / 2 // the file was written longer ago, and renewed since
    assert.equal((await sweep(spool, graceMs)).removed, 0)
    program.child.kill('SIGUSR2')
    assert.equal(await program.code(), 0)
    const [task = ''] = leftIn(spool)
    assert.match(program.output, new RegExp(`${task} false\n`))
  })

  for (const id of [undefined, 'order 7'])
    it(`removes the file of a program that is suspended for longer, which then fails and can try again (id: ${id})`, async () => {
      const spool = spoolDirectory()
      const program = new TestProcess(process.execPath, [
        '--input-type=module',
        '-e',
        `
        import { enqueue } from ${JSON.stringify(import.meta.resolve('#src/index.js'))}
        const options = ${JSON.stringify({ spooler: spool, id })}
        const resumed = new Promise(resolve => process.once('SIGUSR2', resolve))
        const body = (async function* () {
          yield Buffer.from('begun')
          console.log('waits')
          await resumed
        })()
        const failure = await enqueue({ a: 1 }, { ...options, body }).catch(error => error)
        console.log('failed', failure.code)
        const { path, isDuplicate } = await enqueue({ a: 1 }, { ...options, body: 'again' })
        console.log('stored', path, isDuplicate)
        process.exit()`,
      ])
      await program.waitFor('waits')
      process.kill(program.pid, 'SIGSTOP')
      await until('a sweep has removed the file', async () => (await sweep(spool, 100)).removed === 1)
      process.kill(program.pid, 'SIGUSR2')
      process.kill(program.pid, 'SIGCONT')
      assert.equal(await program.code(), 0)
      const [task = '', ...others] = leftIn(spool)
      assert.equal(program.output, `waits\nfailed ENQUEUE_FAILED\nstored ${join(spool, task)} false\n`)
      assert.deepEqual(others, [])
      assert.match(readFileSync(join(spool, task), 'latin1'), /again$/)
    })

  it('does nothing in a spool that is not there, and does not fail at a file that it may not open', async () => {
    const spool = spoolDirectory()
    assert.deepEqual(await sweep(join(spool, 'none'), 1), {
      removed: 0,
      published: 0,
      givenBack: 0,
      forgotten: 0,
    })
    writeFileSync(join(spool, LEFTOVER), 'x')
    chmodSync(join(spool, LEFTOVER), 0)
    await untilOlder(1)
    await sweep(spool, 1)
  })

  it('is reported once when it fails, and again when it fails after it has worked', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, ini: { 'spooler-sweep': 1, 'spooler-id-ttl': 1000 } })
    const ids = join(spool, '.spoold/ids')
    const reports = () => daemon.output.split('cleanup failed').length - 1
    const swept = async () => {
      writeFileSync(join(spool, LEFTOVER), 'x')
      await until('a sweep came by', () => !readdirSync(spool).includes(LEFTOVER), 60_000)
    }
    for (let round = 1; round <= 2; round++) {
      rmSync(ids, { recursive: true, force: true })
      writeFileSync(ids, '') // no directory
      await until(`the failure is reported, time ${round}`, () => reports() === round, 60_000)
      rmSync(ids)
      for (let i = 0; i < 2; i++) await swept() // the ids come after the leftovers
    }
    assert.equal(reports(), 2)
  })

  it('is done by the daemon, in its own spools and in external ones', async () => {
    const [spool, external] = [spoolDirectory(), spoolDirectory()]
    for (const each of [spool, external]) writeFileSync(join(each, LEFTOVER), 'x')
    const daemon = await startDaemon({
      spool,
      ini: { 'spooler-external': external, 'spooler-sweep': 1 },
    })
    await until('both spools are clean', () => leftIn(spool).length + leftIn(external).length === 0)
    await daemon.waitFor(/swept leftovers of dead writers: 1 unfinished task removed/)
  })
})

describe('a sweep of the records', () => {
  const recordsOf = (spool: string) => leftIn(join(spool, '.spoold/records'))
  const LONG_NAME = `uwsgi_spoolfile_on_${'x'.repeat(236)}`

  it('removes records whose task is gone, and no others', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const engine = await openEngine(spool)
    const names = ['uwsgi_spoolfile_on_kept', 'uwsgi_spoolfile_on_gone', '5/kept', '5/gone', LONG_NAME]
    for (const name of names) {
      drop(spool, name)
      engine.settle(beginOf(engine, name), RETRY, 0)
    }
    assert.equal(await sweepRecords(spool, Date.now() - 60_000), 0, 'no record is old enough to be removed')
    for (const name of ['uwsgi_spoolfile_on_gone', '5/gone', LONG_NAME]) unlinkSync(join(spool, name))
    writeFileSync(join(spool, '.spoold/records/strange.json'), 'no record')
    assert.equal(await sweepRecords(spool, Date.now() + 1000), 3)
    assert.deepEqual(recordsOf(spool), ['5/kept.json', 'strange.json', 'uwsgi_spoolfile_on_kept.json'])
  })

  it('leaves the record that a new task of the same name gets at that moment', async () => {
    const spool = spoolDirectory()
    const engine = await openEngine(spool)
    const fail = () => {
      drop(spool, 'report')
      engine.settle(beginOf(engine, 'report'), RETRY, 0)
    }
    fail()
    unlinkSync(join(spool, 'report'))
    let isDone = false
    const unhook = hookFs(['renameSync'], (_name, _args, proceed) => {
      if (!isDone) {
        isDone = true
        fail()
      }
      return proceed()
    })
    assert.equal(await sweepRecords(spool, Date.now() + 1000), 0)
    unhook()
    assert.deepEqual(recordsOf(spool), ['report.json'])
    utimesSync(join(spool, 'report'), 1, 1)
    assert.equal(beginOf(engine, 'report').attempt, 2)
  })
})
