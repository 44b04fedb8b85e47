import { toError } from '../../base/errors.js'
import type { Emitter } from '../../base/events/emitter.js'
import type { LastRun } from '../../base/task/last-run.js'
import type { Ref } from '../../base/task/ref.js'
import type { Found, Looker, Report } from '../../base/task/report.js'
import type { AsideReply, MasterMessage } from '../ipc/messages.js'
import type { NamedRef } from './given-tasks.js'
import type { SpawnOptions, WorkerPort } from './worker-port.js'

/** Generous: there are at most a few hundred files, but the machine may be busy. */
const TIMEOUT_MS = 15_000

interface MarkedTask extends NamedRef {
  readonly lastRun?: LastRun
  /** Another worker has it, and may run it. */
  readonly isRecalled?: boolean
}

const BLAMELESS = { kind: 'blameless' } as const

/**
 * Has something done to task files by a process with the identity of the workers, because the master opens none.
 *
 * @returns its reply, or why there is none
 */
export async function askAside(
  { openPort, openAside = openPort }: Pick<SpawnOptions, 'openPort' | 'openAside'>,
  message: MasterMessage,
): Promise<AsideReply | string> {
  let reply: AsideReply | string = 'the process that was to do it has ended'
  try {
    const port = openAside()
    const timer = setTimeout(() => port.kill(), TIMEOUT_MS)
    port.listen({
      heard(message) {
        if (message.type === 'marks-cleared' || message.type === 'cancelled-buried') reply = message
        else if (message.type === 'unloadable') reply = message.error
      },
      garbled: () => port.kill(),
    })
    port.send(message)
    await port.whenExited
    clearTimeout(timer)
  } catch (thrown) {
    reply = toError(thrown).message
  }
  return reply
}

/**
 * Clears the marks of tasks whose last run was ended through no fault of their own, as if it had not taken place. A mark
 * that is left counts as a crash.
 *
 * @returns what has become of those that do not run again
 */
export async function clearMarks(
  options: Omit<SpawnOptions, 'answer'>,
  tasks: readonly MarkedTask[],
  events: Emitter,
): Promise<readonly Report[]> {
  if (tasks.length === 0) return []
  const { worker } = options
  const marked = tasks.map(({ ref, lastRun = BLAMELESS }) => ({ ref, lastRun }))
  const reply = await askAside(options, { type: 'clear-marks', options: worker, tasks: marked })
  const isAnswered = typeof reply !== 'string' && reply.type === 'marks-cleared'
  const left = isAnswered ? reply.left : tasks.map(({ ref }) => ref)
  const error = isAnswered ? reply.error : String(reply)
  const names = tasks
    .filter(({ ref, isRecalled }) => isRecalled !== true && left.includes(ref))
    .map(({ name }) => name)
  if (names.length > 0) events.emit('marks-left', { spool: worker.spool, names, error })
  return isAnswered ? reply.reports : []
}

/** Its start takes as long as a thousand looks. */
const KEPT_MS = 10_000

type LookMessage = Extract<MasterMessage, { type: 'look' | 'look-later' }>
type LookReply = Extract<AsideReply, { type: 'looked' | 'looked-later' }>

/** A process that looks at the files of tasks for the master, which opens none. It is there while it is asked from time to time. */
export class LookAside implements Looker {
  readonly #spool: string
  readonly #openAside: () => WorkerPort
  readonly #asked = new Map<number, (reply: LookReply | undefined) => void>()
  #port: WorkerPort | undefined
  #next = 0
  #timer: NodeJS.Timeout | undefined

  constructor(spool: string, openAside: () => WorkerPort) {
    this.#spool = spool
    this.#openAside = openAside
  }

  /** @returns what is found at each, in their order; undefined: nobody could look */
  async look(refs: readonly Ref[], begunSinceMs?: number): Promise<readonly Found[] | undefined> {
    const reply = await this.#ask(id => ({ type: 'look', id, spool: this.#spool, refs, begunSinceMs }))
    if (begunSinceMs !== undefined && this.#asked.size === 0) this.close() // deaths are rare
    return reply?.type === 'looked' ? reply.found : undefined
  }

  readonly later: Looker['later'] = async (refs, sinceMs) => {
    const reply = await this.#ask(id => ({ type: 'look-later', id, spool: this.#spool, refs, sinceMs }))
    return reply?.type === 'looked-later' ? reply.changed : undefined
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#port?.kill() // it writes nothing
  }

  #ask(questionOf: (id: number) => LookMessage): Promise<LookReply | undefined> {
    const id = this.#next++
    return new Promise(resolve => {
      this.#asked.set(id, resolve)
      clearTimeout(this.#timer)
      try {
        this.#port ??= this.#open()
        this.#port.send(questionOf(id))
      } catch {
        this.#answered(id, undefined) // the system has no memory for another process
      }
    })
  }

  #open(): WorkerPort {
    const port = this.#openAside()
    port.listen({
      heard: message => {
        if (message.type === 'looked' || message.type === 'looked-later') this.#answered(message.id, message)
        else port.kill()
      },
      garbled: () => port.kill(),
    })
    void port.whenExited.then(() => {
      if (this.#port === port) this.#port = undefined
      for (const id of [...this.#asked.keys()]) this.#answered(id, undefined)
    })
    return port
  }

  #answered(id: number, reply: LookReply | undefined): void {
    this.#asked.get(id)?.(reply)
    this.#asked.delete(id)
    if (this.#asked.size === 0) this.#timer = setTimeout(() => this.close(), KEPT_MS).unref()
  }
}
