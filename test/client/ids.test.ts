import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { sweepSpool } from '#src/engines/spool/admin/sweep.js'
import { hiddenRef } from '#src/engines/spool/store/draft.js'
import { type Wait, writeSteps } from '#src/engines/spool/store/write.js'
import { Batch, enqueue, enqueueSync } from '#src/index.js'
import { leftIn, packet } from '../helpers/files.js'
import { hookFs } from '../helpers/fs-hooks.js'
import { ROOT, spoolDirectory } from '../helpers/workspace.js'

const linkOf = (spool: string, id: string) =>
  join(spool, '.spoold/ids', createHash('sha256').update(id).digest('hex'))

describe('an id', () => {
  for (const sync of [true, false])
    it(`makes one task of two calls, and the second says so (sync ${sync})`, async () => {
      const spooler = spoolDirectory()
      const first = await enqueue({ n: 1 }, { spooler, sync, id: 'a' })
      const again = await enqueue({ n: 2 }, { spooler, sync, id: 'a' })
      const blocking = enqueueSync({ n: 3 }, { spooler, sync, id: 'a' })
      assert.equal(first.isDuplicate, false)
      assert.deepEqual([again, blocking], Array(2).fill({ path: first.path, isDuplicate: true }))
      assert.equal((await enqueue({ n: 4 }, { spooler, sync, id: 'b' })).isDuplicate, false)
      assert.equal(leftIn(spooler).length, 2)
      assert.equal(lstatSync(join(spooler, '.spoold')).mode & 0o777, 0o700)
    })

  it('still counts after the task is gone', async () => {
    const spooler = spoolDirectory()
    const { path } = await enqueue({ n: 1 }, { spooler, priority: 5, id: 'a' })
    unlinkSync(path)
    assert.deepEqual(await enqueue({ n: 1 }, { spooler, id: 'a' }), { path, isDuplicate: true })
    assert.deepEqual(leftIn(spooler), [])
  })

  it('makes one task when ten processes use it at the same time', async () => {
    const spooler = spoolDirectory()
    const script = `
      import { enqueue } from 'spoold'
      const results = []
      for (let i = 0; i < 40; i++)
        results.push(await enqueue({ i }, { spooler: ${JSON.stringify(spooler)}, id: 'id ' + i, sync: i % 2 === 0 }))
      console.log(JSON.stringify(results))`
    const outputs = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const child = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: ROOT })
        let text = ''
        child.stdout.on('data', chunk => (text += chunk))
        await once(child, 'close')
        return JSON.parse(text) as Array<{ path: string; isDuplicate: boolean }>
      }),
    )
    for (let i = 0; i < 40; i++) {
      const results = outputs.map(output => output[i])
      assert.equal(results.filter(result => result?.isDuplicate === false).length, 1, `id ${i}`)
      assert.equal(new Set(results.map(result => result?.path)).size, 1)
    }
    assert.equal(leftIn(spooler).length, 40)
  })

  it('is published by the next call when its writer died between the promise and the publication', async () => {
    for (const sync of [true, false]) {
      const spooler = spoolDirectory()
      const ref = diePromised(spooler, 'a', sync)
      assert.deepEqual(leftIn(spooler), [hiddenRef(ref)], 'it is not there yet')
      const path = join(spooler, ref)
      assert.deepEqual(await enqueue({ n: 2 }, { spooler, sync, id: 'a' }), { path, isDuplicate: true })
      assert.deepEqual(leftIn(spooler), [ref])
      assert.deepEqual(execFileSync('cat', [path]), packet({ n: '1' }))
    }
  })

  it('that was promised is published by a sweep, which removes a mere leftover', async () => {
    const spooler = spoolDirectory()
    const promised = diePromised(spooler, 'a', true)
    const leftover = `.spoold-uwsgi_spoolfile_on_dead_1_1_1_1_1.tmp`
    writeFileSync(join(spooler, leftover), 'half a ta')
    await new Promise(resolve => setTimeout(resolve, 20))
    const swept = await sweepSpool({ spool: spooler, graceMs: 10, idTtlMs: 0 })
    assert.deepEqual(swept, { removed: 1, published: 1, givenBack: 0, forgotten: 0 })
    assert.deepEqual(leftIn(spooler), [promised])
  })

  it('keeps its task when a writer that was suspended for long promises it in the middle of a sweep', async () => {
    const spooler = spoolDirectory()
    const steps = writeSteps({ packet: packet({ n: '1' }), id: 'a' }, { spool: spooler, sync: true })
    const goOnTo = (isThere: (wait: Wait) => boolean) => {
      for (let step = steps.next(); step.done !== true; step = steps.next()) if (isThere(step.value)) return
    }
    goOnTo(({ kind }) => kind === 'written')
    const [hidden = ''] = leftIn(spooler)
    await new Promise(resolve => setTimeout(resolve, 20))
    const unhook = hookFs(['openSync'], (_name, [path], proceed) => {
      if (String(path).endsWith(hidden))
        goOnTo(wait => wait.kind === 'directory' && wait.path.endsWith('/ids'))
      return proceed()
    })
    const { removed } = await sweepSpool({ spool: spooler, graceMs: 10, idTtlMs: 0 })
    unhook()
    goOnTo(() => false)
    assert.deepEqual([removed, leftIn(spooler)], [0, [readlinkSync(linkOf(spooler, 'a'))]])
  })

  it('is forgotten after its time, and not before', async () => {
    const spooler = spoolDirectory()
    await enqueue({ n: 1 }, { spooler, id: 'a' })
    assert.equal((await sweepSpool({ spool: spooler, graceMs: 0, idTtlMs: 60_000 })).forgotten, 0)
    await new Promise(resolve => setTimeout(resolve, 20))
    assert.equal((await sweepSpool({ spool: spooler, graceMs: 0, idTtlMs: 10 })).forgotten, 1)
    assert.deepEqual(readdirSync(join(spooler, '.spoold/ids')), [])
    assert.equal((await enqueue({ n: 1 }, { spooler, id: 'a' })).isDuplicate, false)
    assert.equal(leftIn(spooler).length, 2)
  })

  it('counts in a batch as elsewhere, even twice in the same batch', async () => {
    const spooler = spoolDirectory()
    const first = await enqueue({ n: 1 }, { spooler, id: 'a' })
    for (const allOrNothing of [true, false]) {
      const batch = new Batch({ spooler, allOrNothing })
      for (const id of ['a', `b${allOrNothing}`, `b${allOrNothing}`]) batch.add({ id }, { id })
      const stored = await batch.spool()
      assert.deepEqual(
        stored.map(({ isDuplicate }) => isDuplicate),
        [true, false, true],
      )
      assert.equal(stored[0]?.path, first.path)
    }
    assert.equal(leftIn(spooler).length, 3)
  })

  for (const evil of ['../../etc/passwd', '/etc/passwd', 'x', '5/../../uwsgi_spoolfile_on_x', ''])
    it(`is refused when its link was changed to ${JSON.stringify(evil)}`, async () => {
      const spooler = spoolDirectory()
      mkdirSync(join(spooler, '.spoold/ids'), { recursive: true })
      if (evil === '') writeFileSync(linkOf(spooler, 'a'), '')
      else symlinkSync(evil, linkOf(spooler, 'a'))
      await assert.rejects(enqueue({ n: 1 }, { spooler, id: 'a' }), {
        code: 'ENQUEUE_FAILED',
        message: /is no id of ours/,
      })
      assert.deepEqual(leftIn(spooler), [])
    })
})

/** Performs the steps of a write up to the one before the rename. @returns the ref of the task */
function diePromised(spool: string, id: string, sync: boolean): string {
  const steps = writeSteps({ packet: packet({ n: '1' }), id }, { spool, sync })
  for (let step = steps.next(); step.done !== true; step = steps.next()) {
    if (step.value.kind === 'directory' && step.value.path.endsWith('/ids'))
      return readlinkSync(linkOf(spool, id))
    if (!sync && step.value.kind === 'written') break
  }
  // without sync there is no step between the link and the rename: what is left is made by hand
  const hidden = leftIn(spool)[0] ?? ''
  const ref = hidden.replace(/^\.spoold-(.*)\.tmp$/, '$1')
  mkdirSync(join(spool, '.spoold/ids'), { recursive: true, mode: 0o700 })
  symlinkSync(ref, linkOf(spool, id))
  return ref
}
