import assert from 'node:assert/strict'
import { mkdirSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { LeaseWatch } from '#src/system/files/lease.js'
import { workspace } from '../helpers/workspace.js'

const MINUTE_MS = 60_000

/** Makes a lease whose time, by the clock of its holder, is this. @returns its path */
function leaseOf(seconds: number): string {
  const path = join(workspace(), 'a.lock')
  mkdirSync(path)
  utimesSync(path, seconds, seconds)
  return path
}

describe('a lease of another process', () => {
  for (const [what, seconds] of [
    ['an hour ago', Date.now() / 1000 - 3600],
    ['in an hour', Date.now() / 1000 + 3600],
  ] as const)
    it(`whose time is ${what} is dead when that time has not changed for a minute, and not before`, () => {
      const [path, watch] = [leaseOf(seconds), new LeaseWatch()]
      assert.equal(watch.isDead(statSync(path), 5000), false)
      assert.equal(watch.isDead(statSync(path), 5000 + MINUTE_MS), false)
      assert.equal(watch.isDead(statSync(path), 5001 + MINUTE_MS), true)
    })

  it('lives as long as its time changes, even if to an earlier one', () => {
    const [path, watch] = [leaseOf(1_000_000_000), new LeaseWatch()]
    assert.equal(watch.isDead(statSync(path), 0), false)
    utimesSync(path, 999_996_400, 999_996_400)
    assert.equal(watch.isDead(statSync(path), MINUTE_MS), false)
    assert.equal(watch.isDead(statSync(path), 2 * MINUTE_MS), false)
    assert.equal(watch.isDead(statSync(path), 2 * MINUTE_MS + 1), true)
  })
})
