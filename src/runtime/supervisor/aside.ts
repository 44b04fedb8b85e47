import { toError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import { isHeldUp, type Looker, type Report } from '../../base/task/report.js'
import type { Aside, AsideResult } from '../../engines/directory/aside-work.js'
import {
  type DoAside,
  type MarkedRef,
  SETTLE_PAST,
  type WorkerMessage,
  type WorkerOptions,
} from '../ipc/messages.js'
import type { Excused } from './cut-short.js'
import type { WorkerPort } from './worker-port.js'

/** How long an answer may take. Generous, because the machine may be busy: a question is about a few hundred files at most. */
const TIMEOUT_MS = 15_000
const ENDED = 'the process that was to do it has ended'
const HELD_UP = {
  locked: 'another process holds it',
  unreadable: 'it cannot be read',
  untouched: 'its spool cannot be reached',
} as const

/**
 * Clears the marks of tasks whose last run was ended through no fault of their own, as if the run had not taken place. A mark
 * that is left counts as a crash.
 *
 * @returns what has become of the tasks that do not run again
 */
export async function clearMarks(
  aside: AsideProcess,
  options: WorkerOptions,
  tasks: readonly Excused[],
  events: Emitter,
): Promise<readonly Report[]> {
  if (tasks.length === 0) return []
  const found = await aside.settlePast(options, tasks)
  const faults = found.filter(each => typeof each === 'string')
  const left = tasks.filter((_, i) => typeof found[i] === 'string')
  const names = left.map(({ given }) => given.name)
  const { spool } = options
  if (names.length > 0) events.emit('marks-left', { spool, names, error: faults.at(-1) ?? '' })
  return found.filter(each => typeof each === 'object' && each !== null)
}

/** How long the process is kept without a question, because its start takes as long as a thousand looks. */
const KEPT_MS = 10_000

/** These take longer the larger their directory is. The others take a moment, unless the process is stopped or its disk hangs. */
const LONG: ReadonlySet<string> = new Set(['sweep', 'forget', 'purge'])
/** These follow the end of a worker, which is rare. */
const ONCE: ReadonlySet<string> = new Set([SETTLE_PAST])
const UNANSWERED = `the process that was to do it has not answered for ${TIMEOUT_MS / 1000} s`

type Reply = Pick<Extract<WorkerMessage, { type: 'done-aside' }>, 'value' | 'error'>

/** The process aside: it does for the master what has to be done to task files. It exists while it is asked from time to time. */
export class AsideProcess {
  readonly #openAside: () => WorkerPort
  readonly #asked = new Map<number, (reply: Reply) => void>()
  #port: WorkerPort | undefined
  #next = 0
  #timer: NodeJS.Timeout | undefined
  /** The process was killed for its silence and has not exited: on a disk that hangs, another one would hang, too. */
  #isHanging = false
  #isClosed = false

  constructor(openAside: () => WorkerPort) {
    this.#openAside = openAside
  }

  readonly ask: Aside = (name, spool, ...args) => {
    return this.#reply(name, spool, args) as AsideResult<typeof name>
  }

  /**
   * Settles the past of tasks.
   *
   * @returns for each task what has become of it, or a text that says why it could not be dealt with; null: it may run
   */
  async settlePast(
    options: WorkerOptions,
    tasks: readonly MarkedRef[],
  ): Promise<ReadonlyArray<Report | string | null>> {
    const marked = tasks.map(({ ref, lastRun }) => ({ ref, lastRun }))
    try {
      const found = await this.#reply(SETTLE_PAST, options.spool, [options, marked])
      return (found as ReadonlyArray<Report | null>).map(report =>
        report !== null && isHeldUp(report) ? (report.detail ?? HELD_UP[report.kind]) : report,
      )
    } catch (thrown) {
      return tasks.map(() => toError(thrown).message)
    }
  }

  #giveUp(): void {
    this.#isHanging = true
    void this.#port?.whenExited.then(() => {
      this.#isHanging = false
    })
    this.#end(UNANSWERED)
  }

  /** Cuts short what the process does now. */
  close(): void {
    this.#isClosed = true
    this.#end()
  }

  #end(why = ENDED): void {
    clearTimeout(this.#timer)
    this.#port?.kill()
    this.#port = undefined
    for (const id of [...this.#asked.keys()]) this.#answered(id, { error: why })
  }

  async #reply(name: string, spool: string, args: readonly unknown[]): Promise<unknown> {
    const question: DoAside = { type: 'do-aside', id: this.#next++, name, spool, args }
    const deadline = LONG.has(name) ? undefined : setTimeout(() => this.#giveUp(), TIMEOUT_MS).unref()
    const { value, error } = await new Promise<Reply>(resolve => {
      this.#asked.set(question.id, resolve)
      clearTimeout(this.#timer)
      try {
        if (this.#isClosed) throw new Error(ENDED)
        if (this.#isHanging) throw new Error(UNANSWERED)
        this.#port ??= this.#open()
        this.#port.send(question)
      } catch (thrown) {
        this.#answered(question.id, { error: toError(thrown).message })
      }
    })
    clearTimeout(deadline)
    clearTimeout(this.#timer)
    if (this.#asked.size === 0 && this.#port !== undefined)
      this.#timer = setTimeout(() => this.#end(), ONCE.has(name) ? 0 : KEPT_MS).unref()
    if (error !== undefined) throw new Error(error)
    return value
  }

  #open(): WorkerPort {
    const port = this.#openAside()
    port.listen({
      heard: message => {
        if (message.type === 'done-aside') this.#answered(message.id, message)
        else port.kill()
      },
      garbled: () => port.kill(),
    })
    void port.whenExited.then(({ unforked }) => {
      if (this.#port === port) this.#end(unforked)
    })
    return port
  }

  #answered(id: number, reply: Reply): void {
    this.#asked.get(id)?.(reply)
    this.#asked.delete(id)
  }
}

/** A looker at the tasks of one spool. Each of its looks resolves to undefined if nobody could look. */
export function lookerOf(ask: Aside, spool: string): Looker {
  const nobody = () => undefined
  return {
    look: refs => ask('look', spool, refs).catch(nobody),
    later: (refs, sinceMs) => ask('later', spool, refs, sinceMs).catch(nobody),
    holder: ref => ask('holder', spool, ref).catch(nobody),
    freeSlots: asked => ask('freeSlots', spool, asked).catch(nobody),
  }
}
