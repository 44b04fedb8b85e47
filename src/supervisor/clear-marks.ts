import { toError } from '../base/errors.js'
import type { Emitter } from '../events/emitter.js'
import type { Ref } from '../task/ref.js'
import type { SpawnOptions } from './worker-port.js'

/** It has to do with a few hundred files at most, on a machine that may be busy with something else. */
const TIMEOUT_MS = 15_000

/**
 * Makes tasks be as before their last run, which somebody has ended who is not to blame for it: with the identity of the
 * workers, because the master opens no task. What is left counts as a crash.
 */
export async function clearMarks(
  { worker, openPort }: Omit<SpawnOptions, 'answer'>,
  refs: readonly Ref[],
  events: Emitter,
): Promise<void> {
  if (refs.length === 0) return
  let left = refs
  let error = 'the process that was to clear it has ended'
  try {
    const port = openPort()
    const timer = setTimeout(() => port.kill(), TIMEOUT_MS)
    port.listen(message => {
      if (message.type === 'marks-cleared') ({ left, error } = message)
    })
    port.send({ type: 'clear-marks', options: worker, refs })
    await port.whenExited
    clearTimeout(timer)
  } catch (thrown) {
    error = toError(thrown).message
  }
  if (left.length > 0) events.emit('marks-left', { spool: worker.spool, refs: left, error })
}
