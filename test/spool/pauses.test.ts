import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { describePauses, isWholePaused, type Pause, type Pauses } from '#src/base/task/pause.js'
import { toByteString } from '#src/base/task/ref.js'
import { PauseWatch, pauseSpool, readPauses, resumeSpool } from '#src/engines/spool/pauses.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const WHOLE: Pause = { pair: null, sinceMs: 1, untilMs: null }
const of = (key: string, value: string): Pause => ({ ...WHOLE, pair: [key, value] })
const at = (spool: string) => join(spool, '.spoold/paused')

/** Returns a spool whose `paused` is what `make` makes. */
function with_(make: (path: string) => void): string {
  const spool = spoolDirectory()
  mkdirSync(join(spool, '.spoold'), 0o700)
  make(at(spool))
  return spool
}

describe('the pauses of a spool', () => {
  it('are a file that keeps their bytes, and that is removed with the last pause', async () => {
    const spool = spoolDirectory()
    assert.deepEqual(readPauses(toByteString(spool)), { pauses: [] })
    const pauses = [
      WHOLE,
      of('kind', 'gr\xfc\xdf\x00='),
      { ...of('__proto__', ''), untilMs: Date.now() + 60_000 },
    ]
    for (const each of pauses) await pauseSpool(spool, each)
    assert.deepEqual(readPauses(toByteString(spool)), { pauses })
    assert.equal(statSync(at(spool)).mode & 0o777, 0o600)
    await resumeSpool(spool, ['kind', 'gr\xfc\xdf\x00='])
    await resumeSpool(spool, null)
    assert.deepEqual(readPauses(toByteString(spool)).pauses, pauses.slice(2))
    const { ended, left } = await resumeSpool(spool, 'all')
    assert.deepEqual([ended.length, left.pauses.length], [1, 0])
    assert.throws(() => statSync(at(spool)), { code: 'ENOENT' })
  })

  it('are all kept if they are set at the same time', async () => {
    const spool = spoolDirectory()
    const names = Array.from({ length: 20 }, (_, i) => `n${i}`)
    await Promise.all(names.map(name => pauseSpool(spool, of('k', name))))
    assert.deepEqual(
      readPauses(spool)
        .pauses.map(({ pair }) => pair?.[1])
        .sort(),
      [...names].sort(),
    )
  })

  it('are bounded, and a pause that does not fit changes nothing', async () => {
    const spool = spoolDirectory()
    await pauseSpool(spool, of('k', 'v'))
    const before = readFileSync(at(spool))
    await assert.rejects(pauseSpool(spool, of('k', 'x'.repeat(64 * 1024))), /no room for another pause/)
    assert.deepEqual(readFileSync(at(spool)), before)
  })

  for (const [what, make] of [
    ['an empty file', path => writeFileSync(path, '')],
    ['half a file', path => writeFileSync(path, '{"pauses":[{"since":1,"key":"ki')],
    ['JSON of another form', path => writeFileSync(path, '{"pauses":[{"key":"kind","value":3,"since":1}]}')],
    ['a JSON list', path => writeFileSync(path, '[]')],
    ['the JSON text null', path => writeFileSync(path, 'null')],
    ['a huge file', path => writeFileSync(path, `{"pauses":[]}${' '.repeat(70_000)}`)],
    ['a directory', path => mkdirSync(path)],
    ['a symbolic link that leads out of the spool', path => symlinkSync('/etc/passwd', path)],
  ] as ReadonlyArray<readonly [string, (path: string) => void]>)
    it(`pause everything if .spoold/paused is ${what}, until all are resumed`, async () => {
      const spool = with_(make)
      const read = readPauses(spool)
      assert.ok(isWholePaused(read) && read.fault?.startsWith(at(spool)), read.fault)
      await assert.rejects(pauseSpool(spool, WHOLE), /spoold resume --all/)
      await assert.rejects(resumeSpool(spool, null), /--all/)
      await resumeSpool(spool, 'all')
      assert.equal(isWholePaused(readPauses(spool)), false)
    })
})

it('a directory with files in place of .spoold/paused is left to its owner', async () => {
  const spool = with_(path => {
    mkdirSync(path)
    writeFileSync(`${path}/precious`, '')
  })
  await assert.rejects(resumeSpool(spool, 'all'), /paused is a directory with files in it: move it away$/)
  assert.ok(isWholePaused(readPauses(spool)))
})

describe('a watch of the pauses', () => {
  /** Starts a watch. @returns what it tells, in words */
  async function watching(spool: string) {
    const told: string[] = []
    const watch = new PauseWatch(spool, (pauses: Pauses) => told.push(describePauses(pauses)))
    await watch.start()
    return { told, close: () => watch.close() }
  }

  it('reports a change once and within a second, even in a spool that has no .spoold yet', async () => {
    const spool = spoolDirectory()
    const { told, close } = await watching(spool)
    const since = performance.now()
    await pauseSpool(spool, WHOLE)
    await until('the watch tells of the change', () => told.length === 1)
    assert.ok(performance.now() - since < 1000, `it took ${performance.now() - since} ms`)
    await pauseSpool(spool, { ...WHOLE, sinceMs: 2 })
    await pauseSpool(spool, of('a', 'b'))
    await until('the watch tells of the change', () => told.length === 2)
    writeFileSync(at(spool), 'x')
    await until('the watch tells of the change', () => told.length === 3)
    rmSync(join(spool, '.spoold'), { recursive: true })
    await until('the watch tells of the change', () => told.length === 4)
    close()
    assert.deepEqual(told, [
      'all tasks',
      'all tasks; tasks with a=b',
      `all tasks, because ${at(spool)} is not JSON`,
      '',
    ])
  })

  it('reports a pause from before, and its end by time, which stays when the clock is set back', async t => {
    const spool = spoolDirectory()
    await pauseSpool(spool, { ...WHOLE, untilMs: Date.now() + 3_600_000 })
    const { told, close } = await watching(spool)
    assert.equal(told.length, 1)
    const now = Date.now
    const clock = t.mock.method(Date, 'now', () => now() + 3_600_000)
    await until('the pause is over', () => told.length === 2)
    clock.mock.restore() // the clock is set back
    await new Promise(resolve => setTimeout(resolve, 3000)) // until the file is no longer young
    close()
    assert.deepEqual(told.slice(1), [''])
  })
})
