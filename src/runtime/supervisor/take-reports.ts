import type { Ref, TaskName } from '../../base/task/ref.js'
import type { Report } from '../../base/task/report.js'
import { assertBelow, eachDone, eachReport, type PackedReports } from '../ipc/reports.js'
import { type GivenTasks, nameOf } from './given-tasks.js'
import type { Reported } from './worker-listener.js'

/**
 * Unpacks a worker's reports, and removes the reported tasks from the list of what the worker was given.
 *
 * @throws Error if it reports what it was never given, before anything is removed
 */
export function takeReports(message: PackedReports, given: GivenTasks): Reported {
  assertBelow(message, given.count)
  const known = new Set<TaskName>()
  const done: Ref[] = []
  /** The names of those in `done`; undefined while they are the refs. */
  let names: TaskName[] | undefined
  const reports: Report[] = []
  const late: Report[] = []
  const ids = new Map<TaskName, string>()
  const noteId = (number: number, name: TaskName) => {
    const id: unknown = message.ids?.[number]
    if (typeof id === 'string') ids.set(name, id)
  }
  eachDone(message, number => {
    const ended = given.end(number)
    if (ended === undefined) return
    given.tell(number, 'ok')
    const { ref, notice, isAnnounced, isRecalled } = ended
    if (message.ids !== undefined) noteId(number, nameOf(ended))
    if (isAnnounced) known.add(nameOf(ended))
    if (isRecalled) late.push({ ref, name: notice?.name, kind: 'ok', ranMs: 0 })
    else {
      if (notice !== undefined) names ??= [...done]
      done.push(ref)
      names?.push(nameOf(ended))
    }
  })
  const givenOf = (number: number) => given.of(number)
  eachReport(message, givenOf, (number, report) => {
    const ended = given.end(number)
    given.tell(number, report.kind, report.detail)
    if (ended === undefined || (ended.isRecalled && report.kind === 'untouched')) return
    if (message.ids !== undefined) noteId(number, nameOf(ended))
    if (ended.isAnnounced) known.add(nameOf(ended))
    const list = ended.isRecalled ? late : reports
    list.push(report)
  })
  return { done, doneNames: names ?? done, reports, late, known, ids, wishes: message.wishes ?? [] }
}
