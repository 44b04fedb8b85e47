import { toOutcome } from '../../../base/task/answer.js'
import type { Outcome } from '../../../base/task/outcome.js'
import { resultOfState } from '../../ipc/host-page.js'

/** The host died before its detail arrived. */
export const LOST: Outcome = { kind: 'error', detail: 'what it said is lost' }

/** @param text of a frame `ended` */
export function fromEnded(text: string): Outcome {
  const result = resultOfState(Number(text.slice(0, 1)))
  if (result === undefined) return LOST
  return typeof result === 'string' ? fromHost(result, text.slice(1)) : result
}

/**
 * What a host said of a run. An `answer` is that of a named task: JSON, with the keys of an answer in JavaScript
 * (base/task/answer.ts). It may have `error`: the stack of what the task threw. `retry` is then the delay before the next run, in
 * seconds, if the host has one.
 */
export function fromHost(kind: 'error' | 'answer', text: string): Outcome {
  if (kind === 'error') return { kind, detail: text }
  const answer: unknown = JSON.parse(text)
  if (typeof answer !== 'object' || answer === null || !('error' in answer)) return toOutcome(answer)
  const failed = { kind: 'error', detail: String(answer.error) } as const
  return 'retry' in answer && typeof answer.retry === 'number'
    ? { ...failed, delayMs: answer.retry * 1000 }
    : failed
}
