import { setTimeout as sleep } from 'node:timers/promises'
import { hasFields } from '../../../base/json-guard.js'
import { askDaemon } from '../../../engines/control/client.js'
import { chunksOf } from '../../../engines/directory/word-of-daemon.js'
import { daemonSocketsOf } from '../../../engines/open-engine.js'

export type End = 'done' | 'dead' | 'gone'

/** The file of a task goes before its worker has reported that: so long, the daemon is asked again. */
const REPORT_MS = 300
const AGAIN_MS = 30

/**
 * How tasks ended that are not there any more, as far as the daemons of their spool remember it.
 *
 * @param spool its real path, or its name on Redis
 * @param names of tasks, or their ids; one character is one byte
 */
export async function recall(spool: string, names: readonly string[]): Promise<ReadonlyMap<string, End>> {
  const ends = new Map<string, End>()
  const giveUpAt = performance.now() + REPORT_MS
  for (;;) {
    const isAnswered = await askAll(spool, names, ends)
    const areAllKnown = names.every(name => ends.has(name))
    if (!isAnswered || areAllKnown || performance.now() > giveUpAt) return ends
    await sleep(AGAIN_MS)
  }
}

/** @returns whether a daemon has answered */
async function askAll(spool: string, names: readonly string[], ends: Map<string, End>): Promise<boolean> {
  let isAnswered = false
  for (const path of await socketsOf(spool))
    for (const tasks of chunksOf(names.filter(name => !ends.has(name))))
      try {
        const answer = await askDaemon(path, 'ended', { spool, tasks })
        if (!isAnswer(answer)) break
        isAnswered = true
        for (const end of ['gone', 'dead', 'done'] as const)
          for (const name of answer[end]) ends.set(name, end)
      } catch {
        break // it is dead, of another version, or not ours to ask
      }
  return isAnswered
}

async function socketsOf(spool: string): Promise<string[]> {
  try {
    return await daemonSocketsOf(spool)
  } catch {
    return []
  }
}

function isAnswer(answer: unknown): answer is Readonly<Record<End, readonly string[]>> {
  return hasFields(answer, { done: 'texts', dead: 'texts', gone: 'texts' }, {})
}
