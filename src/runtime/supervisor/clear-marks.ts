import type { Emitter } from '../../base/events/emitter.js'
import { askAside } from './ask-aside.js'
import type { NamedRef } from './given-tasks.js'
import type { SpawnOptions } from './worker-port.js'

/**
 * Clears the marks of tasks whose last run was ended through no fault of their own, as if it had not taken place. A mark
 * that is left counts as a crash.
 */
export async function clearMarks(
  options: Omit<SpawnOptions, 'answer'>,
  tasks: readonly NamedRef[],
  events: Emitter,
): Promise<void> {
  if (tasks.length === 0) return
  const { worker } = options
  const refs = tasks.map(({ ref }) => ref)
  const reply = await askAside(options, { type: 'clear-marks', options: worker, refs })
  const isAnswered = typeof reply !== 'string' && reply.type === 'marks-cleared'
  const left = isAnswered ? reply.left : refs
  const error = isAnswered ? reply.error : String(reply)
  const names = tasks.filter(({ ref }) => left.includes(ref)).map(({ name }) => name)
  if (names.length > 0) events.emit('marks-left', { spool: worker.spool, names, error })
}
