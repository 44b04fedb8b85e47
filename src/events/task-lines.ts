import type { Log } from '../base/log.js'
import { printable } from '../base/printable.js'
import { baseName, displayName, type Ref } from '../task/ref.js'
import { isHandled, type Report } from '../task/report.js'

/** An incomplete file that nobody holds may still be on its way for so long. */
const GRACE_MS = 10_000
/** Files that are left alone are told of once; of so many at most. */
const MAX_TOLD = 10_000

/** Which worker of which spool speaks. */
export interface Speaker {
  readonly spool: string
  readonly pid: number
}

/** The lines about single tasks (core/spooler.c, spooler_manage_task). */
export class TaskLines {
  readonly #log: Log
  readonly #isQuiet: () => boolean
  readonly #told = new Set<string>()

  constructor(log: Log, isQuiet: () => boolean) {
    this.#log = log
    this.#isQuiet = isQuiet
  }

  managing({ spool, pid }: Speaker, ref: Ref): void {
    if (this.#isQuiet()) return
    const fields = { spool, worker: pid, task: displayName(baseName(ref)) }
    this.#log.line('info', `[spooler ${spool} pid: ${pid}] managing request ${lineName(ref)} ...`, fields)
  }

  /** @param isKnown its `managing` line was written when it started */
  reported(speaker: Speaker, report: Report, isKnown: boolean): void {
    const { spool, pid } = speaker
    const { ref, kind, ranMs, atMs, detail } = report
    const name = lineName(ref)
    const prefix = `[spooler ${spool} pid: ${pid}]`
    const fields = { spool, worker: pid, task: displayName(baseName(ref)), ranMs }
    if (!isKnown && (isHandled(kind) || kind === 'ignore')) this.managing(speaker, ref)
    switch (kind) {
      case 'ok':
        if (this.#isQuiet()) return
        return this.#log.line(
          'info',
          `${prefix} done with task ${name} after ${Math.floor(ranMs / 1000)} seconds`,
          fields,
        )
      case 'retry':
        if (detail !== undefined) this.#log.line('error', `${prefix} task ${name}: ${detail}`, fields)
        return
      case 'error':
        return this.#log.line(
          'error',
          `${prefix} task ${name} failed, runs again ${inSeconds(atMs)}: ${detail}`,
          fields,
        )
      case 'ignore': // quiet or not, as in uWSGI
        return this.#log.line(
          'warn',
          'unable to find the spooler function, have you loaded it into the spooler process ?',
          fields,
        )
      case 'unsettled':
        return this.#log.line('error', `${prefix} task ${name} ${detail}`, fields)
      case 'buried':
      case 'set-aside':
        return this.#log.line('error', `${prefix} task ${name} is buried: ${detail}`, fields)
      case 'malformed':
      case 'unreadable':
        return this.#leftAlone(spool, ref, detail ?? kind)
      case 'incomplete':
        if (Date.now() - (atMs ?? 0) > GRACE_MS) this.#leftAlone(spool, ref, detail ?? kind)
        return
      case 'gone':
      case 'locked':
      case 'later':
      case 'untouched':
      case 'alone':
        return
    }
  }

  overran({ spool, pid }: Speaker, ref: Ref): void {
    const fields = { spool, worker: pid, task: displayName(baseName(ref)) }
    this.#log.line(
      'error',
      `[spooler ${spool} pid: ${pid}] task ${lineName(ref)} overran spooler-harakiri`,
      fields,
    )
  }

  #leftAlone(spool: string, ref: Ref, detail: string): void {
    const key = `${spool}/${ref}`
    if (this.#told.has(key)) return
    if (this.#told.size >= MAX_TOLD) this.#told.clear()
    this.#told.add(key)
    const fields = { spool, task: displayName(ref) }
    this.#log.line(
      'warn',
      `[spooler ${spool}] ${printable(displayName(ref))} is left alone: ${detail}`,
      fields,
    )
  }
}

/** The task's name as a line has it. */
function lineName(ref: Ref): string {
  return printable(displayName(baseName(ref)))
}

function inSeconds(atMs: number | undefined): string {
  return atMs === undefined ? 'later' : `in ${Math.max(0, Math.round((atMs - Date.now()) / 1000))} s`
}
