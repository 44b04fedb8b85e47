import { describe } from '../../base/errors.js'
import { queueFault } from '../protocol/named.js'

/** A queue of named tasks, and its spool as written. */
export type Queue = readonly [name: string, directory: string]

/** Returns the values of spooler-queue. `checkQueues` has found the invalid ones. */
export function queuesOf(values: readonly string[]): Queue[] {
  return values.map(value => {
    const cut = value.indexOf('=')
    return [value.slice(0, cut), value.slice(cut + 1)]
  })
}

/** Checks the values of spooler-queue. @param report called with the index of each invalid value */
export function checkQueues(values: readonly string[], report: (i: number, message: string) => void): void {
  const seen = new Set<string>()
  for (const [i, value] of values.entries()) {
    const [name = '', directory = ''] = value.includes('=') ? (queuesOf([value])[0] ?? []) : []
    const fault = queueFault(name)
    if (name === '' || directory === '')
      report(i, `expected QUEUE=DIR, such as mail=/var/spool/mail, got ${describe(value)}`)
    else if (fault !== undefined) report(i, `a queue's name must be ${fault}, got ${describe(name)}`)
    else if (seen.has(name)) report(i, `the queue ${name} has a spool already`)
    seen.add(name)
  }
}
