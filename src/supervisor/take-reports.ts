import { eachDone, eachReport, type PackedReports } from '../ipc/reports.js'
import type { Ref } from '../task/ref.js'
import type { Report } from '../task/report.js'
import type { GivenTasks } from './given-tasks.js'
import type { Reported } from './worker-listener.js'

/** Unpacks a worker's reports, and removes the reported tasks from the list of what the worker was given. */
export function takeReports(message: PackedReports, given: GivenTasks): Reported {
  const known = new Set<Ref>()
  const done: Ref[] = []
  const reports: Report[] = []
  const late: Report[] = []
  eachDone(message, number => {
    const ended = given.end(number)
    if (ended === undefined) return
    if (ended.isTold) known.add(ended.ref)
    if (ended.isCancelled) late.push({ ref: ended.ref, kind: 'ok', ranMs: 0 })
    else done.push(ended.ref)
  })
  const refOf = (number: number) => given.refOf(number)
  eachReport(message, refOf, (number, report) => {
    const ended = given.end(number)
    if (ended === undefined || (ended.isCancelled && report.kind === 'untouched')) return
    if (ended.isTold) known.add(ended.ref)
    const list = ended.isCancelled ? late : reports
    list.push(report)
  })
  return { done, reports, late, known }
}
