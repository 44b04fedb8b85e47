import type { Emitter } from '../../base/events/emitter.js'
import type { EventMap } from '../../base/events/event-map.js'
import type { TaskName } from '../../base/task/ref.js'
import { nameOf, type ReportKind } from '../../base/task/report.js'
import { ControlError } from '../../formats/control/protocol.js'
import type { Action } from '../control/actions.js'

/** A client that waits for tasks. */
interface Watcher {
  readonly spool: string
  readonly awaited: Set<TaskName>
  send(event: unknown): boolean
  end(fault?: ControlError): void
}

interface TaskWatchContext {
  readonly events: Emitter
  /** The real paths of the spools that the daemon runs now. */
  spools(): readonly string[]
}

/** Kinds of reports after which a task is a dead letter. */
const DEAD: ReadonlySet<ReportKind> = new Set(['buried', 'set-aside'])

/** Tells clients of the control sockets how tasks end. While nobody waits, it hears nothing. */
export class TaskWatch {
  readonly #context: TaskWatchContext
  readonly #watchers = new Set<Watcher>()
  #stopHearing = () => {}

  constructor(context: TaskWatchContext) {
    this.#context = context
  }

  /**
   * The verb: an event at once, from which on no end is missed; then one for each batch of ended tasks. It ends with the
   * last of the tasks.
   */
  get action(): Action {
    return {
      role: 'viewer',
      args: { spool: 'text', tasks: 'texts' },
      run: ({ spool, tasks }: { readonly spool: string; readonly tasks: readonly string[] }, call) => {
        if (!this.#context.spools().includes(spool))
          throw new ControlError('failed', `this daemon does not run ${JSON.stringify(spool)}`)
        return new Promise<void>((resolve, reject) => {
          const watcher: Watcher = {
            spool,
            awaited: new Set(tasks),
            send: event => call.send(event),
            end: fault => {
              this.#forget(watcher)
              if (fault === undefined) resolve()
              else reject(fault)
            },
          }
          void call.whenGone.then(() => watcher.end())
          this.#watchers.add(watcher)
          if (this.#watchers.size === 1)
            this.#stopHearing = this.#context.events.on('tasks-reported', reported => this.#hear(reported))
          call.send({ awaited: watcher.awaited.size })
        })
      },
    }
  }

  /** The daemon stops: what has not ended will not end here. */
  close(): void {
    for (const watcher of this.#watchers) watcher.end(new ControlError('stopped', 'the daemon stops'))
  }

  #hear({ spool, done, reports }: EventMap['tasks-reported']): void {
    for (const watcher of this.#watchers) {
      if (watcher.spool !== spool) continue
      const isAwaited = (name: TaskName) => watcher.awaited.delete(name)
      const namesOf = (isIt: (kind: ReportKind) => boolean) =>
        reports.filter(({ kind }) => isIt(kind)).map(nameOf)
      const ended = {
        done: [...done, ...namesOf(kind => kind === 'ok')].filter(isAwaited),
        dead: namesOf(kind => DEAD.has(kind)).filter(isAwaited),
      }
      if (ended.done.length + ended.dead.length > 0 && !watcher.send(ended)) watcher.end()
      else if (watcher.awaited.size === 0) watcher.end()
    }
  }

  #forget(watcher: Watcher): void {
    if (this.#watchers.delete(watcher) && this.#watchers.size === 0) this.#stopHearing()
  }
}
