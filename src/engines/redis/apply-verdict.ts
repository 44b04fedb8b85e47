import { unknownName } from '../../base/task/report.js'
import { isNamed, taskNameOf } from '../../formats/protocol/named.js'
import type { Unsettled } from '../contracts/verdict.js'
import type { RedisClaim } from './claim.js'
import type { Refusal } from './pulls.js'
import { recordAfter, type TaskRecord } from './task-job.js'

/** What has been pulled, and may run as far as is known. */
export type Locked = Pick<RedisClaim, 'job' | 'jobs' | 'token' | 'terms'>

/** A task that no handler here knows is offered again, to any daemon, after the frequency, then twice that, up to this. */
const UNWANTED_CAP_MS = 300_000

/** No handler here knows its name; those of another daemon may. */
export async function putOff(
  { job, jobs, token }: Locked,
  record: TaskRecord,
  frequencyMs: number,
): Promise<Refusal> {
  const unwanted = (record.unwanted ?? 0) + 1
  const delayMs = Math.min(frequencyMs * 2 ** (unwanted - 1), UNWANTED_CAP_MS)
  const atMs = await jobs.delay(job.id, token, delayMs, { ...record, unwanted })
  return { ...unknownName(taskNameOf(job.vars) ?? ''), atMs }
}

/** Settles a task that is not done. */
export async function applyVerdict(
  own: RedisClaim,
  verdict: Unsettled,
  frequencyMs: number,
): Promise<Refusal> {
  const { job, jobs, token } = own
  const record: TaskRecord = { ...own.record, past: 'none' }
  switch (verdict.kind) {
    case 'put-back':
      await jobs.mark(own.held, record)
      await jobs.putBack(job.id, token)
      return { kind: 'untouched' }
    case 'ignored': {
      if (isNamed(job.vars)) return putOff(own, record, frequencyMs)
      const atMs = await jobs.delay(job.id, token, frequencyMs, record)
      return { kind: 'ignore', atMs }
    }
    case 'bury': {
      const buried = { ...recordAfter(record, verdict), reason: verdict.reason }
      await jobs.bury(job.json, token, buried, verdict.detail)
      return { kind: 'buried', detail: verdict.detail }
    }
    case 'again': {
      const runs = recordAfter(record, verdict)
      const atMs = await jobs.delay(job.id, token, verdict.delayMs, runs, 'failed')
      return { kind: verdict.as, atMs, detail: verdict.detail }
    }
  }
}
