import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import type { PeriodicEntry } from '#src/base/task/schedule.js'
import { periodicStates, readPeriodic } from '#src/engines/spool/periodic-states.js'
import { spoolDirectory } from '../helpers/workspace.js'

const ENTRY: PeriodicEntry = { name: 'tick', when: { everyMs: 1000 }, sinceMs: 1, nextMs: 1001 }
const KEY = createHash('sha256').update('tick').digest('hex')
const room = (spool: string) => join(spool, '.spoold/periodic')

/** Returns a spool in which version 7 of the entry is what `make` makes. */
function damaged(make: (path: string) => void): string {
  const spool = spoolDirectory()
  mkdirSync(room(spool), { recursive: true, mode: 0o700 })
  make(join(room(spool), `${KEY}.7`))
  return spool
}

describe('the entry of a periodic task', () => {
  it('is a link that people can read, and its older versions are removed', async () => {
    const spool = spoolDirectory()
    for (let version = 0; version < 12; version++)
      assert.equal(await periodicStates(spool).advance({ ...ENTRY, sinceMs: version }, version, true), true)
    assert.deepEqual(readdirSync(room(spool)), [`${KEY}.12`])
    assert.equal(
      readlinkSync(join(room(spool), `${KEY}.12`)),
      '{"name":"tick","when":{"everyMs":1000},"sinceMs":11,"nextMs":1001}',
    )
    assert.equal(readPeriodic(spool).get(KEY)?.version, 12)
  })

  it('is not replaced by somebody who has read an older version', async () => {
    const spool = spoolDirectory()
    for (let version = 0; version < 9; version++) await periodicStates(spool).advance(ENTRY, version, false)
    assert.equal(await periodicStates(spool).advance({ ...ENTRY, nextMs: 5 }, 3, true), false)
    assert.deepEqual(readdirSync(room(spool)), [`${KEY}.9`])
  })

  it('is the latest version if a daemon died before it removed the previous one', async () => {
    const spool = spoolDirectory()
    await periodicStates(spool).advance(ENTRY, 8, false)
    symlinkSync(JSON.stringify({ ...ENTRY, nextMs: 7 }), join(room(spool), `${KEY}.8`))
    assert.deepEqual(readPeriodic(spool).get(KEY), { version: 9, entry: ENTRY })
    await periodicStates(spool).advance(ENTRY, 9, false)
    assert.deepEqual(readdirSync(room(spool)), [`${KEY}.10`])
  })

  const link = (text: string) => (path: string) => symlinkSync(text, path)
  const cases: Array<[name: string, make: (path: string) => void]> = [
    ['a link with other text', link('../../etc/passwd')],
    ['JSON of another kind', link('[1]')],
    ['an entry without a time', link(JSON.stringify({ ...ENTRY, nextMs: 'soon' }))],
    ['an entry without a rhythm', link(JSON.stringify({ ...ENTRY, when: {} }))],
    ['the entry of another task', link(JSON.stringify({ ...ENTRY, name: 'tock' }))],
    ['an entry whose run is outside the spool', link(JSON.stringify({ ...ENTRY, task: '../x' }))],
    ['a file', path => writeFileSync(path, JSON.stringify(ENTRY))],
    ['a directory with something in it', path => mkdirSync(join(path, 'x'), { recursive: true })],
  ]
  for (const [name, make] of cases)
    it(`counts as damaged if it is ${name}, and can still be replaced`, async () => {
      const spool = damaged(make)
      assert.deepEqual(readPeriodic(spool).get(KEY), { version: 7, entry: undefined })
      assert.equal(await periodicStates(spool).advance(ENTRY, 7, true), true)
      assert.deepEqual(readPeriodic(spool).get(KEY), { version: 8, entry: ENTRY })
    })

  it('is neither read nor written if .spoold/periodic leads out of the spool', async () => {
    const spool = spoolDirectory()
    const outside = join(dirname(spool), 'outside')
    mkdirSync(outside)
    await periodicStates(spool).advance(ENTRY, 0, false)
    renameSync(room(spool), join(outside, 'periodic'))
    symlinkSync(join(outside, 'periodic'), room(spool))
    assert.equal(readPeriodic(spool).size, 0)
    await assert.rejects(periodicStates(spool).advance(ENTRY, 1, false), { code: 'SPOOL_UNUSABLE' })
    assert.deepEqual(readdirSync(join(outside, 'periodic')), [`${KEY}.1`])
  })

  it('does not follow a link in place of its task, which counts as waiting', () => {
    const spool = spoolDirectory()
    const packet = join(dirname(spool), 'packet')
    writeFileSync(packet, Buffer.from([17, 0, 0, 0x80]))
    symlinkSync(packet, join(spool, 'a'))
    assert.equal(periodicStates(spool).fateOf('a'), 'waiting')
    rmSync(join(spool, 'a'))
    assert.equal(periodicStates(spool).fateOf('a'), 'gone')
    writeFileSync(join(spool, 'a'), readFileSync(packet))
    assert.equal(periodicStates(spool).fateOf('a'), 'begun')
  })
})
