import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { startDaemon } from '../helpers/daemon.js'
import { drop, packet } from '../helpers/files.js'
import { untilGone } from '../helpers/proc.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** Makes a pipe beside the spool that nobody writes to, so that whoever opens it waits. */
function deafPipe(spool: string): string {
  const pipe = join(dirname(spool), 'pipe')
  execFileSync('mkfifo', [pipe])
  return pipe
}

/** Leaves a thread of the process in a system call that does not end, so that Node's exit would wait for ever. */
const BLOCKS_A_THREAD = `
  import { open } from 'node:fs'
  export default (env, task) => {
    open(env.pipe, 'r', () => {})
    JOURNAL(task.name)
    return task.SPOOL_OK
  }`

describe('a worker whose exit waits for a thread that does not end', { concurrency: 2 }, () => {
  it('ends when its master is gone', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: BLOCKS_A_THREAD })
    drop(spool, 'a', packet({ pipe: deafPipe(spool) }))
    await until('the task has run', () => daemon.journal().includes('a'))
    const workers = daemon.workers()
    daemon.child.kill('SIGKILL')
    await untilGone(...workers)
  })

  it('is killed by its master after its last message, and a successor runs the next task', async () => {
    const spool = spoolDirectory()
    const daemon = await startDaemon({ spool, handler: BLOCKS_A_THREAD, ini: { 'spooler-max-tasks': 1 } })
    const pipe = deafPipe(spool)
    const [first] = daemon.workers()
    for (const name of ['a', 'b']) drop(spool, name, packet({ pipe }))
    await until('both tasks have run', () => daemon.journal().length === 2)
    await untilGone(first ?? 0)
    assert.doesNotMatch(daemon.output, /crash|failed|DAMN/i)
  })
})

describe('a worker', () => {
  it('ends whenever its master is killed: while it boots, while it loads its handlers, or while it runs', async () => {
    const HANDLER = `
      import { setTimeout } from 'node:timers/promises'
      await setTimeout(100)
      export default async (env, task) => {
        await setTimeout(20)
        return task.SPOOL_OK
      }`
    for (const afterMs of [0, 50, 100, 150, 200, 300, 500]) {
      const spool = spoolDirectory()
      for (let i = 0; i < 50; i++) drop(spool, `t${i}`)
      const daemon = await startDaemon({ spool, handler: HANDLER, isUnready: true })
      const workers = await until('the daemon has a worker', () =>
        daemon.workers().length > 0 ? daemon.workers() : null,
      )
      await setTimeout(afterMs)
      daemon.child.kill('SIGKILL')
      await untilGone(...workers)
    }
  })
})
