import type { Emitter } from '../../base/events/emitter.js'
import type { EventMap } from '../../base/events/event-map.js'
import type { TaskName } from '../../base/task/ref.js'
import { nameOf, type ReportKind } from '../../base/task/report.js'
import { ControlError } from '../../formats/control/protocol.js'
import { actionFor } from '../control/actions.js'

/** A client that waits for tasks. */
interface Watcher {
  readonly spool: string
  readonly awaited: Set<TaskName>
  send(event: unknown): boolean
  end(fault?: ControlError): void
}

/** Kinds of reports after which a task is a dead letter. */
const DEAD: ReadonlySet<ReportKind> = new Set(['buried', 'set-aside'])

/** The tasks of a spool that ended at one time, by name, and by id if they have one. */
interface Ends {
  readonly spool: string
  readonly done: readonly string[]
  readonly dead: readonly string[]
  /** Another process ran or removed it. */
  readonly gone: readonly string[]
}

const ASKED = { spool: 'text', tasks: 'texts' } as const

/** At least this many ended tasks are remembered, so that a client that asks a moment later learns how they ended. */
const MOST_REMEMBERED = 10_000

/** Tells clients of the control sockets how tasks end, and how the last ones ended. */
export class TaskWatch {
  readonly #isRun: (spool: string) => boolean
  readonly #watchers = new Set<Watcher>()
  /** The ended tasks, the latest ones last. */
  readonly #remembered: Ends[] = []
  #count = 0

  /** @param isRun true if the daemon now runs the spool with this real path */
  constructor(events: Emitter, isRun: (spool: string) => boolean) {
    this.#isRun = isRun
    events.on('tasks-reported', reported => this.#hear(reported))
  }

  /**
   * The verb `wait`: sends an event at once, after which no end is missed; then one for each batch of ended tasks. It ends with the
   * last of the tasks.
   */
  readonly action = actionFor('viewer', ASKED, ({ spool, tasks }, call) => {
    this.#check(spool)
    return new Promise<void>((resolve, reject) => {
      const watcher: Watcher = {
        spool,
        awaited: new Set(tasks),
        send: event => call.send(event),
        end: fault => {
          this.#watchers.delete(watcher)
          if (fault === undefined) resolve()
          else reject(fault)
        },
      }
      void call.whenGone.then(() => watcher.end())
      this.#watchers.add(watcher)
      call.send({ awaited: watcher.awaited.size })
      if (watcher.awaited.size === 0) watcher.end()
    })
  })

  /** The verb `ended`: tells which of these tasks, by name or id, are remembered, and how they ended last. */
  readonly recall = actionFor('viewer', ASKED, ({ spool, tasks }) => {
    this.#check(spool)
    const wanted = new Set(tasks)
    const isWanted = (task: string) => wanted.delete(task)
    const found = { done: [] as string[], dead: [] as string[], gone: [] as string[] }
    const latest = this.#remembered.filter(ends => ends.spool === spool).reverse()
    // a worker that comes too late for a task reports it as gone, whatever another worker made of it
    for (const kinds of [['done', 'dead'], ['gone']] as const)
      for (const ends of latest) for (const how of kinds) found[how].push(...ends[how].filter(isWanted))
    return { pid: process.pid, ...found }
  })

  /** @throws ControlError */
  #check(spool: string): void {
    if (!this.#isRun(spool))
      throw new ControlError('failed', `this daemon does not run ${JSON.stringify(spool)}`)
  }

  /** Call it when the daemon stops: tasks that have not ended will not end here. */
  close(): void {
    for (const watcher of this.#watchers) watcher.end(new ControlError('stopped', 'the daemon stops'))
  }

  #hear({ spool, done, reports }: EventMap['tasks-reported']): void {
    const namesOf = (isIt: (kind: ReportKind) => boolean) =>
      reports.filter(({ kind }) => isIt(kind)).map(nameOf)
    const ok = namesOf(kind => kind === 'ok')
    const names = ok.length === 0 ? done : [...done, ...ok]
    const dead = namesOf(kind => DEAD.has(kind))
    const gone = namesOf(kind => kind === 'gone')
    const ids = reports.flatMap(({ kind, id }) => (kind === 'ok' ? (id ?? []) : []))
    this.#remember({ spool, done: ids.length === 0 ? names : [...names, ...ids], dead, gone })
    for (const watcher of this.#watchers) {
      if (watcher.spool !== spool) continue
      const isAwaited = (name: TaskName) => watcher.awaited.delete(name)
      const ended = { done: names.filter(isAwaited), dead: dead.filter(isAwaited) }
      if (ended.done.length + ended.dead.length > 0 && !watcher.send(ended)) watcher.end()
      else if (watcher.awaited.size === 0) watcher.end()
    }
  }

  #remember(ends: Ends): void {
    const count = countOf(ends)
    if (count === 0) return
    this.#remembered.push(ends)
    this.#count += count
    for (let [first] = this.#remembered; first !== undefined; [first] = this.#remembered) {
      if (this.#count - countOf(first) < MOST_REMEMBERED) break
      this.#count -= countOf(first)
      this.#remembered.shift()
    }
  }
}

function countOf({ done, dead, gone }: Ends): number {
  return done.length + dead.length + gone.length
}
