import assert from 'node:assert/strict'
import { linkSync, mkdirSync, readdirSync, readlinkSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { OK, RETRY } from '#src/base/task/outcome.js'
import { systemCalls } from '#src/system/libc.js'
import { beginOf, claimOf, openEngine, refusalOf } from '../../helpers/engine.js'
import { drop, leftIn, packet } from '../../helpers/files.js'
import { spoolDirectory } from '../../helpers/workspace.js'

const NAMES = Array.from({ length: 40 }, (_, n) => `uwsgi_spoolfile_on_x_${n}`)

/** Returns what this process has open below a directory, including removed files. */
function openBelow(directory: string): string[] {
  return readdirSync('/proc/self/fd').flatMap(fd => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`)
      return target.startsWith(`${directory}/`) ? [target.slice(directory.length + 1)] : []
    } catch {
      return [] // the descriptor of the listing itself
    }
  })
}

describe('a spool that is held', () => {
  it('is held anew when its path leads elsewhere and a name is not found in it', async () => {
    const spool = spoolDirectory()
    const away = join(dirname(spool), 'away')
    for (const name of NAMES.slice(0, 3)) drop(spool, name, packet({ of: 'old' }))
    const engine = await openEngine(spool)
    engine.settle(beginOf(engine, NAMES[0] ?? ''), OK, 0)
    renameSync(spool, away)
    mkdirSync(spool)
    drop(spool, 'only-here', packet({ of: 'new' }))
    engine.release(claimOf(engine, 'only-here')) // a name that is not found makes the engine hold the path anew
    assert.equal(refusalOf(engine, NAMES[1] ?? '').kind, 'gone')
    assert.deepEqual(leftIn(away), NAMES.slice(1, 3))
  })

  it('is held anew with the next batch, and a namesake in the directory that took its place is another task', async () => {
    const spool = spoolDirectory()
    const away = join(dirname(spool), 'away')
    const [name = ''] = NAMES
    drop(spool, name, packet({ of: 'old' }))
    const engine = await openEngine(spool)
    engine.release(claimOf(engine, name))
    renameSync(spool, away)
    mkdirSync(spool)
    drop(spool, name, packet({ of: 'new' }))
    engine.rest(false)
    engine.settle(beginOf(engine, name), OK, 0)
    assert.deepEqual([leftIn(spool), leftIn(away)], [[], [name]])
  })

  it('has the claimed file removed at its end, even if somebody exchanges the directory above it meanwhile', async () => {
    const spool = spoolDirectory()
    const [real, decoy] = [join(spool, '.real'), join(dirname(spool), 'decoy')]
    mkdirSync(join(spool, '5'))
    mkdirSync(decoy)
    const ref = `5/${NAMES[0]}`
    drop(spool, ref)
    drop(decoy, NAMES[0] ?? '')
    for (const ranMs of [0, 5]) {
      const engine = await openEngine(spool)
      const claim = beginOf(engine, ref)
      renameSync(join(spool, '5'), real)
      symlinkSync(decoy, join(spool, '5'))
      assert.equal(engine.settle(claim, OK, ranMs).kind, 'ok')
      assert.deepEqual([leftIn(real), leftIn(decoy)], [[], [NAMES[0]]])
      assert.equal(refusalOf(engine, ref).kind, 'gone')
      rmSync(join(spool, '5'))
      renameSync(real, join(spool, '5'))
      drop(spool, ref)
      engine.rest(true)
    }
  })

  it('is no longer held when there is nothing to claim', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    drop(spool, '5/task')
    drop(spool, 'task')
    const engine = await openEngine(spool)
    for (const ref of ['5/task', 'task']) engine.settle(beginOf(engine, ref), OK, 5)
    engine.rest(true)
    assert.deepEqual(openBelow(dirname(spool)), [])
  })
})

describe('the descriptors of tasks that have ended', () => {
  it('are closed sixteen at a time and before each report if the files are removed', async () => {
    const spool = spoolDirectory()
    for (const name of NAMES) drop(spool, name)
    const engine = await openEngine(spool)
    const calls = systemCalls() as { closeRun: (first: number, last: number) => void }
    const { closeRun } = calls
    const runs: number[] = []
    calls.closeRun = (first, last) => {
      runs.push(last - first + 1)
      closeRun(first, last)
    }
    try {
      for (const name of NAMES) {
        engine.settle(beginOf(engine, name), OK, 0)
        assert.ok(openBelow(spool).length < 16)
      }
      assert.equal(openBelow(spool).length, NAMES.length % 16)
      engine.rest(false)
      assert.deepEqual(openBelow(spool), [])
      assert.equal(
        runs.reduce((sum, count) => sum + count, 0),
        NAMES.length,
      )
      assert.ok(runs.length <= 9 && runs.some(count => count > 4), `in runs of ${runs}`)
    } finally {
      calls.closeRun = closeRun
    }
  })

  it('are closed at once if the files stay or have another name, because somebody may wait for their locks', async () => {
    const spool = spoolDirectory()
    const [kept = '', linked = ''] = NAMES
    drop(spool, kept)
    linkSync(drop(spool, linked), join(spool, 'other-name'))
    const engine = await openEngine(spool)
    engine.settle(beginOf(engine, kept), RETRY, 0)
    engine.settle(beginOf(engine, linked), OK, 0)
    assert.deepEqual(
      openBelow(spool).filter(name => !name.startsWith('.')),
      [],
    )
    const other = await openEngine(spool)
    assert.equal(refusalOf(other, kept).kind, 'later')
    other.settle(beginOf(other, 'other-name'), OK, 0)
    other.rest(true)
  })
})
