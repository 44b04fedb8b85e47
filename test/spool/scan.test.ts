import assert from 'node:assert/strict'
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { afterEach, describe, it } from 'node:test'
import { type ScanVisitor, scanSpool } from '#src/engines/spool/scan.js'
import type { SystemCalls } from '#src/system/calls.js'
import { libcFault, systemCalls } from '#src/system/libc.js'
import { isLong } from '../helpers/requires.js'
import { patience } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

const RULES = { ordered: true, strictNames: false }

let undo = () => {}
afterEach(() => undo())

interface Seen {
  readonly tasks: string[]
  readonly listed: string[]
}

async function scan(spool: string, more: Partial<ScanVisitor> = {}, isLocal = true): Promise<Seen> {
  const seen: Seen = { tasks: [], listed: [] }
  await scanSpool(
    spool,
    RULES,
    {
      task: ref => seen.tasks.push(ref) > 0,
      directory: () => {},
      listed: prefix => void seen.listed.push(prefix),
      unvisited: () => {},
      failed: (_prefix, error) => {
        throw error
      },
      ...more,
    },
    isLocal,
  )
  seen.tasks.sort()
  return seen
}

/** Makes `count` files, some of whose names are not ASCII. @returns the names, sorted */
function fill(spool: string, count: number): string[] {
  const names = Array.from({ length: count }, (_, i) => (i % 1000 === 0 ? `n\xfc${i}` : `name-${i}`))
  for (const name of names) writeFileSync(Buffer.from(join(spool, name), 'latin1'), '')
  return names.sort()
}

/** Simulates a file system that does not tell the type of its entries. */
function hideKinds(): void {
  const calls: { -readonly [Name in keyof SystemCalls]: SystemCalls[Name] } = systemCalls()
  const { getdents, getdentsAside } = calls
  const hide = (entries: Uint8Array, bytes: number) => {
    for (let at = 0; at < bytes; at += (entries[at + 16] ?? 0) | ((entries[at + 17] ?? 0) << 8))
      entries[at + 18] = 0
    return bytes
  }
  calls.getdents = (fd, into) => hide(into, getdents(fd, into))
  calls.getdentsAside = async (fd, into) => hide(into, await getdentsAside(fd, into))
  undo = () => Object.assign(calls, { getdents, getdentsAside })
}

describe('a scan', () => {
  const COUNT = isLong ? 1_000_000 : 50_000

  for (const isLocal of [true, false])
    it(`meets each name once, however many there are, ${isLocal ? 'by its own calls' : 'by Node'}`, async () => {
      const spool = spoolDirectory()
      const names = fill(spool, COUNT)
      const delay = monitorEventLoopDelay({ resolution: 1 })
      delay.enable()
      const { tasks, listed } = await scan(spool, {}, isLocal)
      delay.disable()
      assert.deepEqual(tasks, names)
      assert.deepEqual(listed, [''])
      // a slice of two thousand names, and what a busy machine adds to it
      assert.ok(delay.percentile(90) < 25e6 * patience(), `${delay.percentile(90) / 1e6} ms`)
    })

  it('ends when its visitor says so, in small directories and in large ones', async () => {
    for (const count of [10, 5000]) {
      const spool = spoolDirectory()
      fill(spool, count)
      let met = 0
      const { listed } = await scan(spool, { task: () => ++met < 7 })
      assert.deepEqual([met, listed], [7, []])
    }
  })

  it('enters priorities but no links, and reports an entry of unknown type as a task', {
    skip: libcFault() !== undefined && 'there is no libc',
  }, async () => {
    for (const count of [1, 3000]) {
      const spool = spoolDirectory()
      const names = fill(spool, count)
      mkdirSync(join(spool, '5/3'), { recursive: true })
      writeFileSync(join(spool, '5/3/low'), '')
      mkdirSync(join(spool, '.spoold'))
      mkdirSync(join(spool, 'other'))
      symlinkSync('/etc', join(spool, '7'))
      symlinkSync('/etc/passwd', join(spool, 'link'))
      const told = await scan(spool)
      assert.deepEqual(told.tasks, ['5/3/low', ...names].sort())
      hideKinds()
      const untold = await scan(spool)
      undo()
      assert.deepEqual(untold.tasks, ['5/3/low', '7', 'link', 'other', ...names].sort())
      assert.deepEqual(
        [told.listed, untold.listed],
        [
          ['', '5/', '5/3/'],
          ['', '5/', '5/3/'],
        ],
      )
    }
  })

  it('does not follow a priority that becomes a link while it is listed', async () => {
    const spool = spoolDirectory()
    mkdirSync(join(spool, '5'))
    const { tasks } = await scan(spool, {
      directory(prefix) {
        if (prefix !== '5/') return
        renameSync(join(spool, '5'), join(spool, '.away'))
        symlinkSync('/etc', join(spool, '5'))
      },
    })
    assert.deepEqual(tasks, [])
  })
})
