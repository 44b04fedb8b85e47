import { closeSync, openSync } from 'node:fs'
import { messageOf } from '../../base/errors.js'
import { isLimit, type Report, type ReportKind } from '../../base/task/report.js'

/** How many descriptors it takes to settle a task, whatever its outcome. */
const NEEDED = 8
/** The kinds of reports that may result from a lack of descriptors. */
const TELLING: ReadonlySet<ReportKind> = new Set(['error', 'retry', 'unsettled', 'unreadable'])

/**
 * Why this process cannot settle tasks any more, checked after a report that may be due to that.
 *
 * @param isCheckable free descriptors can be counted
 */
export function limitReached(report: Report, isCheckable: boolean): string | undefined {
  if (isLimit(report)) return report.detail
  if (!isCheckable || !TELLING.has(report.kind)) return undefined
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
