import { closeSync, openSync } from 'node:fs'
import { messageOf } from '../base/errors.js'
import { isLimit, type Report, type ReportKind } from '../task/report.js'

/** So many descriptors are needed to settle a task, whatever becomes of it. */
const NEEDED = 8
/** What a process says that has none left. */
const TELLING: ReadonlySet<ReportKind> = new Set(['error', 'retry', 'unsettled', 'unreadable'])

/** Why this process can settle nothing more, after a report that may be due to that. */
export function limitReached(report: Report): string | undefined {
  if (isLimit(report)) return report.detail
  if (!TELLING.has(report.kind)) return undefined
  const fds: number[] = []
  try {
    while (fds.length < NEEDED) fds.push(openSync('/dev/null', 'r'))
    return undefined
  } catch (error) {
    return messageOf(error)
  } finally {
    for (const fd of fds) closeSync(fd)
  }
}
