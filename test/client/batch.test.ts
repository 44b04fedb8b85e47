import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { DirectoryEnqueuer } from '#src/engines/directory/enqueuer.js'
import { sweepSpool } from '#src/engines/spool/admin/sweep.js'
import { hiddenRef } from '#src/engines/spool/store/draft.js'
import { compareVersions } from '#src/engines/spool/task-order.js'
import { Batch, BatchError, SpooldError } from '#src/index.js'
import { leftIn, packet } from '../helpers/files.js'
import { TestProcess } from '../helpers/process.js'
import { isLong, skipUnless } from '../helpers/requires.js'
import { smallDisk } from '../helpers/small-disk.js'
import { until } from '../helpers/until.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

async function failureOf(batch: Batch): Promise<BatchError> {
  try {
    await batch.spool()
  } catch (error) {
    assert.ok(error instanceof BatchError, String(error))
    assert.equal(error.code, 'BATCH_INCOMPLETE')
    return error
  }
  assert.fail('it was stored')
}

describe('a Batch', () => {
  for (const options of [{}, { sync: false }, { allOrNothing: true }, { sync: false, allOrNothing: true }])
    it(`stores all tasks in the order of add, each where it belongs: ${JSON.stringify(options)}`, async () => {
      const spooler = spoolDirectory()
      const batch = new Batch({ spooler, ...options })
      const count = isLong ? 20_000 : 2000
      for (let i = 0; i < count; i++)
        batch.add(
          { i },
          { ...(i % 3 === 0 ? { priority: i % 5 } : {}), ...(i % 7 === 0 ? { body: 'b', at: 1e9 } : {}) },
        )
      assert.equal(batch.size, count)
      const stored = await batch.spool()
      assert.equal(batch.size, 0)
      assert.equal(leftIn(spooler).length, count, 'nothing else is left')
      for (const [i, { path, isDuplicate }] of stored.entries()) {
        assert.equal(isDuplicate, false)
        assert.equal(dirname(path), i % 3 === 0 ? join(spooler, String(i % 5)) : spooler)
        const vars = {
          i: String(i),
          ...(i % 7 === 0 ? { at: '1000000000' } : {}),
          ...(i % 3 === 0 ? { priority: String(i % 5) } : {}),
        }
        assert.deepEqual(readFileSync(path), packet(vars, i % 7 === 0 ? 'b' : ''))
        if (i % 7 === 0) assert.equal(statSync(path).mtimeMs, 1e12)
      }
    })

  it('names a task file after the mark of its request, by which a forwarded task is recognized', async () => {
    for (const sync of [true, false]) {
      const marks = ['m-1', 'm-2']
      const requests = marks.map(mark => ({ packet: packet({}), mark }))
      const results = await new DirectoryEnqueuer(spoolDirectory(), sync).storeAll(requests)
      const paths = results.map(result => ('stored' in result ? result.stored.path : ''))
      assert.deepEqual(
        paths.map(path => path.split('_').at(-3)),
        marks,
        `sync: ${sync}`,
      )
    }
  })

  it('lets the event loop turn while it is written, when it is large, unsynced and plain, with names in the order of add', async () => {
    const spooler = spoolDirectory()
    const batch = new Batch({ spooler, sync: false })
    for (let i = 0; i < 20_000; i++) batch.add({ i })
    let [isStored, turns] = [false, 0]
    const storing = batch.spool().finally(() => (isStored = true))
    for (; !isStored; turns++) await setImmediate()
    const stored = await storing
    assert.ok(turns >= 200, `${turns} turns`)
    assert.equal(leftIn(spooler).length, 20_000)
    for (const [i, { path }] of stored.entries())
      assert.deepEqual(readFileSync(path), packet({ i: String(i) }))
    const names = stored.map(({ path }) => basename(path))
    assert.deepEqual(names, [...names].sort(compareVersions))
  })

  it('reports each failure, when it is large, unsynced and plain', async () => {
    const spooler = spoolDirectory()
    const batch = new Batch({ spooler, sync: false })
    for (let i = 0; i < 1000; i++) batch.add({ i })
    rmSync(spooler, { recursive: true })
    const { results } = await failureOf(batch)
    assert.equal(results.length, 1000)
    for (const result of results) {
      assert.ok('error' in result && result.error instanceof SpooldError)
      assert.equal(result.error.code, 'ENQUEUE_FAILED')
      assert.equal(result.error.details.errno, 'ENOENT')
    }
  })

  it('opens no more files at once than there are descriptors, even if all bodies come in pieces', async () => {
    const program = `import { Batch } from '${join(ROOT, 'dist/index.js')}'
      const body = async function* () {
        yield Buffer.from('one')
        await new Promise(setImmediate)
        yield Buffer.from('two')
      }
      for (const sync of [true, false]) {
        const batch = new Batch({ spooler: '${spoolDirectory()}', sync })
        for (let i = 0; i < 1000; i++) batch.add({ i }, { body: body() })
        console.log((await batch.spool()).length)
      }`
    const limited = 'ulimit -n 256 && exec "$@"'
    const node = [process.execPath, '--input-type=module', '-e', program]
    const child = new TestProcess('/bin/sh', ['-c', limited, 'sh', ...node])
    assert.deepEqual(await child.exited, { code: 0, signal: null }, child.output)
    assert.equal(child.output, '1000\n1000\n')
  })

  it('publishes complete tasks without sync before the body of another one is there, so no sweep meets them', async () => {
    const spooler = spoolDirectory()
    let meanwhile: readonly string[] = []
    const body = async function* () {
      yield Buffer.from('slow')
      await new Promise(resolve => setTimeout(resolve, 20))
      meanwhile = leftIn(spooler).filter(name => name.startsWith('uwsgi_'))
    }
    const batch = new Batch({ spooler, sync: false })
    batch.add({ n: 1 }, { body: Buffer.from('quick') }).add({ n: 2 }, { body: body() })
    batch.add({ n: 3 }, { id: 'a' }).add({ n: 4 })
    const paths = (await batch.spool()).map(({ path }) => basename(path))
    assert.deepEqual(meanwhile, paths.filter((_, i) => i !== 1).sort())
  })

  for (const options of [{}, { sync: false, allOrNothing: true }])
    it(`keeps a task that waits for the body of another one safe from a sweep: ${JSON.stringify(options)}`, async () => {
      const spooler = spoolDirectory()
      const ofADeadWriter = join(spooler, hiddenRef('left'))
      const body = async function* () {
        yield Buffer.from('slow')
        writeFileSync(ofADeadWriter, '')
        await until('the sweep has removed a file of the same age that a dead writer left', async () => {
          await sweepSpool({ spool: spooler, graceMs: 5000, idTtlMs: 0 })
          return !existsSync(ofADeadWriter)
        })
      }
      const at = Math.floor(Date.now() / 1000) + 1000
      const batch = new Batch({ spooler, ...options })
      batch.add({ n: 1 }, { body: Buffer.from('quick') }).add({ n: 2 }, { body: body() })
      batch.add({ n: 3 }, { id: 'a' }).add({ n: 4 }, { at })
      const paths = (await batch.spool()).map(({ path }) => path)
      assert.deepEqual(leftIn(spooler), paths.map(path => basename(path)).sort())
      assert.equal(statSync(paths[3] ?? '').mtimeMs, at * 1000)
    })

  it('may be empty, and may be used again', async () => {
    const spooler = spoolDirectory()
    const batch = new Batch({ spooler })
    assert.deepEqual(await batch.spool(), [])
    await batch.add({ a: 1 }).spool()
    await batch.add({ a: 2 }).spool()
    assert.equal(leftIn(spooler).length, 2)
  })

  it('refuses a wrong task when it is added, and goes on without it', async () => {
    const spooler = spoolDirectory()
    const batch = new Batch({ spooler }).add({ a: 1 })
    assert.throws(() => batch.add({ a: 'x'.repeat(70_000) }), { code: 'REQUEST_INVALID' })
    assert.throws(() => batch.add({ a: {} as never }), TypeError)
    assert.throws(() => batch.add({ spooler: dirname(spooler) }), { code: 'SPOOLER_UNKNOWN' })
    assert.deepEqual(leftIn(spooler), [])
    assert.equal((await batch.spool()).length, 1)
  })

  it('says of each task whether it was stored', async () => {
    for (const sync of [true, false]) {
      const spooler = spoolDirectory()
      writeFileSync(join(spooler, '5'), 'no directory')
      const batch = new Batch({ spooler, sync }).add({ a: 1 }).add({ a: 2 }, { priority: 5 }).add({ a: 3 })
      const { results } = await failureOf(batch)
      assert.deepEqual(
        results.map(result => 'stored' in result),
        [true, false, true],
      )
      assert.equal(leftIn(spooler).length, 3)
    }
  })

  it('stores nothing with allOrNothing when one task cannot be stored', async () => {
    for (const sync of [true, false]) {
      const spooler = spoolDirectory()
      writeFileSync(join(spooler, '5'), 'no directory')
      const batch = new Batch({ spooler, sync, allOrNothing: true })
      batch.add({ a: 1 }).add({ a: 2 }, { priority: 5 }).add({ a: 3 }, { priority: 6 })
      const { results } = await failureOf(batch)
      assert.ok(results.every(result => 'error' in result))
      assert.deepEqual(leftIn(spooler), ['5'])
    }
  })

  it('stores all or nothing on a disk that fills up in the middle', {
    skip: skipUnless('root', 'mount'),
  }, async () => {
    for (const [room, body] of [
      ['size=256k', 'x'.repeat(4000)],
      ['size=4m,nr_inodes=40', ''],
    ] as const) {
      const spooler = join(smallDisk(room), 'spool')
      mkdirSync(spooler)
      const batch = new Batch({ spooler, allOrNothing: true })
      for (let i = 0; i < 100; i++) batch.add({ i }, { body })
      const { cause } = await failureOf(batch)
      assert.equal((cause as { code?: string }).code, 'SPOOL_FULL')
      assert.deepEqual(leftIn(spooler), [])
      const some = new Batch({ spooler })
      for (let i = 0; i < 100; i++) some.add({ i }, { body })
      const { results } = await failureOf(some)
      const stored = results.flatMap(result => ('stored' in result ? [result.stored.path] : []))
      assert.ok(stored.length > 10 && stored.length < 100, `${stored.length} are stored`)
      assert.deepEqual(leftIn(spooler).sort(), stored.map(path => path.slice(spooler.length + 1)).sort())
    }
  })

  it('does not follow a priority directory that is a link', async () => {
    const [spooler, elsewhere] = [spoolDirectory(), spoolDirectory()]
    symlinkSync(elsewhere, join(spooler, '5'))
    chmodSync(elsewhere, 0o777)
    const { results } = await failureOf(new Batch({ spooler }).add({ a: 1 }, { priority: 5 }))
    assert.match(
      results[0] !== undefined && 'error' in results[0] ? results[0].error.message : '',
      /is not a directory/,
    )
    assert.ok(existsSync(join(spooler, '5')))
    assert.deepEqual(leftIn(elsewhere), [])
  })
})
