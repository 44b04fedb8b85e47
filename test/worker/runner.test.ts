import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { machineNowMs } from '#src/base/clock.js'
import type { WorkerMessage } from '#src/ipc/messages.js'
import type { PackedReports } from '#src/ipc/reports.js'
import { OK } from '#src/task/outcome.js'
import { FunctionExecutor } from '#src/worker/function-executor.js'
import { Runner } from '#src/worker/runner.js'
import { openEngine } from '../helpers/engine.js'
import { drop, packet } from '../helpers/files.js'
import { until } from '../helpers/until.js'
import { spoolDirectory } from '../helpers/workspace.js'

/** A runner whose handler promises to be done after so many milliseconds, by task, and what it sends. */
async function runnerOf(spool: string, ms: Readonly<Record<string, number>>) {
  const sent: PackedReports[] = []
  const send = (message: WorkerMessage) => {
    if (message.type === 'reports') sent.push(message)
  }
  const runner = new Runner(
    await openEngine(spool),
    listener =>
      new FunctionExecutor(
        {
          chain: [({ claim }) => sleep(ms[claim.ref], OK)],
          context: { spool, log() {} },
          chdir: spool,
          directory: { enter() {}, forget() {} },
          concurrency: 1,
        },
        listener,
      ),
    {
      isConcurrent: false,
      maxTasks: 0,
      memory: { rssBytes: 0, vszBytes: 0, minAgeMs: 0 },
      signalAsTask: false,
      harakiriMs: 0,
      isKilled: true,
      isListenedTo: false,
      isDetailed: false,
      handle() {},
      send,
      drained() {},
    },
  )
  return { runner, sent }
}

describe('what a runner tells', () => {
  it('says how long a task took in all, also when its start was reported meanwhile, so that it counts as slow', async () => {
    const spool = spoolDirectory()
    for (const name of ['quick', 'slow']) drop(spool, name, packet({ n: name }))
    const { runner, sent } = await runnerOf(spool, { quick: 0, slow: 60 })
    runner.take(0, ['quick', 'slow'], machineNowMs())
    await until('both are reported', () => sent.filter(({ done }) => done.length > 0).length === 2)
    const started = sent.find(({ started, done }) => started.includes(1) && done.length === 0)
    if (started === undefined) return // on a busy machine it was reported when it began
    assert.deepEqual(sent.at(-1)?.done, [1, 1])
    assert.ok((sent.at(-1)?.busyMs ?? 0) > 55, `60 ms, got ${sent.at(-1)?.busyMs}`)
  })
})
