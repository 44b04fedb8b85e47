import { toError } from '../base/errors.js'
import type { Emitter } from '../events/emitter.js'
import type { NamedRef } from './given-tasks.js'
import type { SpawnOptions } from './worker-port.js'

/** Generous: there are at most a few hundred files, but the machine may be busy. */
const TIMEOUT_MS = 15_000

/**
 * Clears the marks of tasks whose last run was ended through no fault of their own, as if it had not taken place. A
 * process with the identity of the workers does it, because the master opens no task. A mark that is left counts as a
 * crash.
 */
export async function clearMarks(
  { worker, openPort }: Omit<SpawnOptions, 'answer'>,
  tasks: readonly NamedRef[],
  events: Emitter,
): Promise<void> {
  if (tasks.length === 0) return
  const refs = tasks.map(({ ref }) => ref)
  let left: readonly string[] = refs
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
  const names = tasks.filter(({ ref }) => left.includes(ref)).map(({ name }) => name)
  if (names.length > 0) events.emit('marks-left', { spool: worker.spool, names, error })
}
