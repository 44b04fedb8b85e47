import { toError } from '../base/errors.js'
import type { Emitter } from '../events/emitter.js'
import type { MarksCleared, MasterMessage } from '../ipc/messages.js'
import type { Ref } from '../task/ref.js'
import { childExit } from './child-exit.js'
import { forkWorker, type SpawnOptions } from './fork-worker.js'

/** It has to do with a few hundred files at most, on a machine that may be busy with something else. */
const TIMEOUT_MS = 15_000

/**
 * Makes tasks be as before their last run, which somebody has ended who is not to blame for it: with the identity of the
 * workers, because the master opens no task. What is left counts as a crash.
 */
export async function clearMarks(
  options: SpawnOptions,
  refs: readonly Ref[],
  events: Emitter,
): Promise<void> {
  if (refs.length === 0) return
  const { spool } = options.worker
  let left = refs
  let error = 'the process that was to clear it has ended'
  try {
    const child = forkWorker(options)
    const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS)
    child.on('message', (message: MarksCleared) => {
      left = message.left
      error = message.error
    })
    const message: MasterMessage = { type: 'clear-marks', options: options.worker, refs }
    child.send(message, () => {})
    await childExit(child)
    clearTimeout(timer)
  } catch (thrown) {
    error = toError(thrown).message
  }
  if (left.length > 0) events.emit('marks-left', { spool, refs: left, error })
}
