import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { toByteString } from '#src/base/task/ref.js'
import { SpoolSummary } from '#src/engines/spool/admin/summary.js'
import { packet } from '../helpers/files.js'
import { patience, until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

it('SpoolSummary counts dead letters again soon after a look that a busy machine delayed', async () => {
  const spool = spoolDirectory()
  const dead = join(spool, '.spoold', 'dead')
  mkdirSync(dead, { recursive: true })
  const summary = new SpoolSummary(toByteString(spool))
  const first = summary.take()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000) // others have the processor
  assert.equal((await first).dead.count, 0)
  writeFileSync(join(dead, 'letter'), packet({}))
  const since = performance.now()
  await until('the dead letter is counted', async () => (await summary.take()).dead.count === 1, 30_000)
  const tookMs = performance.now() - since
  assert.ok(tookMs < 3000 * patience(), `it took ${tookMs} ms`)
})
