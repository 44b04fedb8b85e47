import { isThenable } from '../../base/promise.js'
import { IGNORE, OK, type Outcome } from '../../base/task/outcome.js'
import { toByteString } from '../../base/task/ref.js'
import type { BegunTask } from '../../base/task/report.js'
import type { PeriodicTask } from '../../base/task/schedule.js'
import type { Terms, TermsOrPark } from '../../base/task/terms.js'
import type { DeadRun } from '../../engines/claims.js'
import { isNamed, taskNameOf } from '../../formats/protocol/named.js'
import type { Vars } from '../../formats/protocol/vars.js'
import { argumentsIn, claimedTask } from '../tasks/claimed-task.js'
import type { RunningTask } from '../tasks/daemon.js'
import { performerOf } from '../tasks/perform.js'
import { periodicOf } from '../tasks/periodic.js'
import { fullNameOf, type Registry, settingsOf, type TaskEntry, takenTwice } from '../tasks/registry.js'
import { type ScheduledTask, TaskStatus } from '../tasks/scheduled-task.js'
import { termsOf } from '../tasks/settings.js'
import type { HandlerCall, TaskContext } from './handler-task.js'
import type { Run } from './run.js'

/** The named tasks of all handlers of a worker, by name. Names have one character per byte, as in packets. */
export class NamedTasks {
  readonly #declared = new Map<string, { readonly terms: Terms; readonly place: string }>()
  /** Functions that look for tasks that a registry has got since the last look. */
  readonly #learners: Array<() => void> = []
  /** The tasks that the daemon itself schedules. */
  readonly periodic: PeriodicTask[] = []

  /** The tasks that are in a link, because two files may have one registry, or be one file with two names. */
  readonly #linked = new Set<TaskEntry>()

  get isEmpty(): boolean {
    return this.#declared.size === 0
  }

  /**
   * Makes the tasks of a registry one link of the chain.
   *
   * @throws SpooldError TASK_INVALID if another link has one of the names
   */
  link(registries: readonly Registry[]): HandlerCall {
    const performers = new Map<string, (args: readonly unknown[]) => unknown>()
    const learn = (mayClash: boolean) => {
      for (const entry of new Set(registries.flatMap(registry => [...registry.all()]))) {
        const { place, definition } = entry
        const name = fullNameOf(entry)
        const key = toByteString(name)
        if (performers.has(key) || this.#linked.has(entry) || (mayClash && this.#declared.has(key))) continue
        this.#linked.add(entry)
        const settings = settingsOf(entry)
        this.declare(termsOf(name, settings), place)
        this.repeat(`task ${name} (${place})`, name, { ...definition, queue: settings.queue })
        performers.set(key, performerOf(entry))
      }
    }
    learn(false)
    this.#learners.push(() => learn(true))
    return run => {
      const perform = performers.get(taskNameOf(run.claim.vars) ?? '')
      return perform === undefined ? IGNORE : call(perform, run)
    }
  }

  /** Adds a named task. @param place where the task is registered, for people */
  declare(terms: Terms, place: string): void {
    const key = toByteString(terms.name)
    const taken = this.#declared.get(key)
    if (taken !== undefined) throw takenTwice(terms.name, taken.place, place)
    this.#declared.set(key, { terms, place })
  }

  /** Adds a periodic task, if the settings make it one. @param what the task whose settings they are, for messages */
  repeat(what: string, name: string, settings: Parameters<typeof periodicOf>[2]): void {
    const periodic = periodicOf(what, name, settings, 0)
    if (periodic !== undefined) this.periodic.push(periodic)
  }

  /** Returns the function that gives the terms of a task. @param areAll true if no other handler could take an unknown name */
  terms(areAll: boolean): (vars: Vars) => TermsOrPark {
    return vars => {
      const name = taskNameOf(vars)
      if (name === undefined) return undefined
      let known = this.#declared.get(name)
      if (known === undefined && isNamed(vars)) {
        for (const learn of this.#learners) learn()
        known = this.#declared.get(name)
      }
      return known === undefined && areAll && isNamed(vars) ? 'unknown-name' : known?.terms
    }
  }
}

/** Runs a named task. May throw or reject. */
function call(perform: (args: readonly unknown[]) => unknown, { claim }: Run): Outcome | Promise<Outcome> {
  const result = perform(argumentsIn(claim))
  return isThenable(result) ? Promise.resolve(result).then(() => OK) : OK
}

const UNREADABLE = { args: [], kwargs: undefined }

/** Returns the named task of a run, for news of runs; undefined if it has no name. Arguments that cannot be read are left out. */
export function begunTask(claim: DeadRun): BegunTask | undefined {
  if (claim.terms === undefined) return undefined
  const { namespace } = claim.terms
  try {
    return toldOf(claimedTask(claim, TaskStatus.RUNNING), namespace)
  } catch {
    return toldOf(claimedTask(claim, TaskStatus.RUNNING, UNREADABLE), namespace) // the run fails for the same reason
  }
}

function toldOf({ at, maxRetries, ...task }: ScheduledTask, namespace: string | undefined): BegunTask {
  const limit = Number.isFinite(maxRetries) ? maxRetries : null
  return { ...task, ...(namespace === undefined ? {} : { namespace }), atMs: at.getTime(), maxRetries: limit }
}

/** Returns the named task of a run, as `currentTask` shows it; undefined if the task has no name. */
export function runningTask(run: Run, { log }: TaskContext): RunningTask | undefined {
  const { claim } = run
  if (claim.terms === undefined) return undefined
  const task = claimedTask(claim, TaskStatus.RUNNING)
  return Object.freeze({
    ...task,
    fencingToken: claim.fencingToken,
    get signal() {
      return run.signal
    },
    log: (message: string) => log(run, { message: String(message) }),
  })
}
