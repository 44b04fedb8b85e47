import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Batch } from '#src/index.js'
import { startDaemon } from '../helpers/daemon.js'
import { leftIn } from '../helpers/files.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { memoryMb, openFiles } from '../helpers/usage.js'
import { spoolDirectory } from '../helpers/workspace.js'

const TASKS = isLong ? 1_000_000 : 20_000
const AT_ONCE = isLong ? 20_000 : 2000
const WARM_UP = 0.4
/** Of one process, after the warm-up, because the size of a heap varies. */
const MAX_GROWTH_MB = 30

describe('a soak', () => {
  it(`of ${TASKS} tasks leaves no descriptor open, and memory flat after the warm-up`, async t => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({
      spool,
      handler: `export default (env, task) => task.SPOOL_OK`,
      ini: { 'spooler-processes': 2, 'spooler-frequency': 1, 'spooler-quiet': true },
    })
    await until('both workers are there', () => daemon.workers().length === 2)
    const pids = [daemon.pid, ...daemon.workers()]
    let filesBefore: number[] = []
    const memory: number[][] = []
    for (let done = 0; done < TASKS; done += AT_ONCE) {
      const batch = new Batch({ spooler: spool, sync: false })
      for (let i = 0; i < AT_ONCE; i++) batch.add({ n: done + i, hello: 'world' })
      await batch.spool()
      await until('the tasks of the round have run', () => leftIn(spool).length === 0, 60_000)
      if (done === 0) filesBefore = pids.map(openFiles) // what loading took is given back by now
      memory.push(pids.map(memoryMb))
    }
    const warm = memory.slice(Math.floor(memory.length * WARM_UP))
    for (const [i, pid] of pids.entries()) {
      const name = i === 0 ? 'the master' : `worker ${i}`
      const files = openFiles(pid)
      assert.ok(
        Math.abs(files - (filesBefore[i] ?? 0)) <= 5,
        `${name}: ${filesBefore[i]} files, then ${files}`,
      )
      const early = Math.max(...warm.slice(0, Math.ceil(warm.length / 3)).map(each => each[i] ?? 0))
      const late = Math.min(...warm.slice(-Math.ceil(warm.length / 3)).map(each => each[i] ?? 0))
      assert.ok(late - early < MAX_GROWTH_MB, `${name} grew from ${early} to ${late} MB`)
      t.diagnostic(
        `${name}: ${filesBefore[i]} files, then ${files}; ${Math.round(early)} MB, then ${Math.round(late)}`,
      )
    }
    // A process aside may come and go.
    const left = new Set([daemon.pid, ...daemon.workers()])
    assert.deepEqual(
      pids.filter(pid => !left.has(pid)),
      [],
      'no process was replaced',
    )
  })
})
