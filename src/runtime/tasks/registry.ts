import { describe, SpooldError } from '../../base/errors.js'
import type { Destination } from '../../engines/client/target.js'
import type { Enqueuer } from '../../engines/enqueuer.js'
import type { Middleware } from './middleware.js'
import { type AttachedDestinations, isDestination } from './queues.js'
import type { KnownSettings, RegistrySettings, TaskDefinition, TaskSettings } from './settings.js'

/** Any function. Its parameters are not checked here. */
export type AnyFunction = (...args: never[]) => unknown

/** A registered task: a function with a name. */
export interface TaskEntry {
  /** The name without the namespace. */
  readonly name: string
  readonly fn: AnyFunction
  /** Where the task was registered: `file:line`. */
  readonly place: string
  readonly definition: TaskDefinition
  readonly registry: Registry
  /** The fewest and the most arguments that the function takes. */
  readonly fewest: number
  readonly most: number
}

/**
 * The tasks of a `Tasks` or `Spoold`, and of the registries that it uses. Copies of this package share the public members; see
 * `REGISTRY`.
 */
export class Registry {
  readonly defaults: RegistrySettings
  /** The middleware around the tasks of this registry, and of the registries that it uses. The outermost comes first. */
  readonly middleware: Middleware[] = []
  readonly #own: Destination | undefined
  readonly #attached: AttachedDestinations | undefined
  readonly #entries = new Map<string, TaskEntry>()
  readonly #byFunction = new Map<unknown, TaskEntry>()
  readonly #used: Registry[] = []
  #standIn: { readonly enqueuer: Enqueuer; readonly place: string } | undefined
  /** The registry that uses this one. */
  #parent: Registry | undefined

  /**
   * @param own where the tasks go, whatever their queue
   * @param attached where the tasks go by queue
   */
  constructor(defaults: RegistrySettings, own?: Destination, attached?: AttachedDestinations) {
    this.defaults = defaults
    this.#own = own !== undefined && isDestination(own) ? own : undefined
    this.#attached = attached
  }

  /** In a test, what replaces all destinations of this registry, and of the registries that it uses. */
  get standIn(): Enqueuer | undefined {
    return this.#standIn?.enqueuer ?? this.#parent?.standIn
  }

  /** Sets the replacement of all destinations; undefined: removes it. @throws SpooldError TASK_INVALID if there is another one */
  setStandIn(enqueuer: Enqueuer | undefined, place: string): void {
    if (enqueuer !== undefined && this.#standIn !== undefined)
      throw new SpooldError(
        'TASK_INVALID',
        `${place}: these tasks have a test kit already, made at ${this.#standIn.place}: call its restore() first`,
      )
    this.#standIn = enqueuer === undefined ? undefined : { enqueuer, place }
  }

  get parent(): Registry | undefined {
    return this.#parent
  }

  set parent(parent: Registry | undefined) {
    this.#parent = parent
  }

  /** The text before the names of the tasks in packets. */
  get prefix(): string {
    const namespace = this.inherited('namespace')
    return namespace === undefined ? '' : `${namespace}:`
  }

  /** @throws SpooldError TASK_INVALID if the name is taken */
  add(entry: TaskEntry): void {
    refuseTaken(rootOf(this), entry)
    this.#entries.set(entry.name, entry)
    this.#byFunction.set(entry.fn, entry)
  }

  /** Makes `find` return the entry for this callable, too. */
  alias(callable: unknown, entry: TaskEntry): void {
    this.#byFunction.set(callable, entry)
  }

  /**
   * Adds another registry.
   *
   * @throws SpooldError TASK_INVALID if a name is taken, or if a registry would use itself; nothing has changed then
   */
  use(other: Registry, place: string): void {
    for (let up: Registry | undefined = this; up !== undefined; up = up.parent)
      if (up === other) throw new SpooldError('TASK_INVALID', `${place}: a registry cannot use itself`)
    if (other.parent !== undefined) {
      process.emitWarning(
        `${place}: these tasks were attached before${other.parent === this ? '' : ', and now belong to the second one'}`,
        'SpooldWarning',
      )
      if (other.parent === this) return
    }
    const before = other.parent
    other.parent = this // this may give the tasks of `other` a namespace
    try {
      for (const entry of other.all()) for (const all of [rootOf(this), other]) refuseTaken(all, entry)
    } catch (error) {
      other.parent = before
      throw error
    }
    before?.release(other)
    this.#used.push(other)
  }

  /** Removes a registry that another one uses now. */
  release(other: Registry): void {
    const i = this.#used.indexOf(other)
    if (i >= 0) this.#used.splice(i, 1)
  }

  *all(): Generator<TaskEntry> {
    yield* this.#entries.values()
    for (const each of this.#used) yield* each.all()
  }

  /**
   * Finds a task.
   *
   * @param task its function, a callable in place of that, or its name, also without the namespace of this registry
   */
  find(task: unknown): TaskEntry | undefined {
    if (typeof task === 'string') return this.named(this.prefix + task) ?? this.named(task)
    return this.#byFunction.get(task) ?? firstOf(this.#used, each => each.find(task))
  }

  /** Finds a task by name. @param name with the namespace, as in packets */
  named(name: string): TaskEntry | undefined {
    const { prefix } = this
    const own = name.startsWith(prefix) ? this.#entries.get(name.slice(prefix.length)) : undefined
    return own ?? firstOf(this.#used, each => each.named(name))
  }

  /** Returns a setting of this registry, or else of the nearest registry above that has it. */
  inherited<Name extends keyof RegistrySettings>(name: Name): RegistrySettings[Name] | undefined {
    return this.defaults[name] ?? this.#parent?.inherited(name)
  }

  /** Where the tasks go, as this registry says, or else the nearest one above that says it. */
  get destination(): { readonly own?: Destination; readonly attached?: AttachedDestinations } {
    if (this.#own !== undefined) return { own: this.#own }
    if (this.#attached !== undefined) return { attached: this.#attached }
    return this.#parent?.destination ?? {}
  }
}

function rootOf(registry: Registry): Registry {
  let root = registry
  while (root.parent !== undefined) root = root.parent
  return root
}

function firstOf<Item, Found>(
  items: readonly Item[],
  find: (item: Item) => Found | undefined,
): Found | undefined {
  for (const item of items) {
    const found = find(item)
    if (found !== undefined) return found
  }
  return undefined
}

/** Returns a task of the registry. @param task as for `find` @throws SpooldError TASK_UNKNOWN */
export function taskIn(registry: Registry, task: unknown): TaskEntry {
  const found = registry.find(task)
  if (found !== undefined) return found
  const got = typeof task === 'function' ? `the function ${task.name}` : describe(task)
  const names = Array.from(registry.all(), entry =>
    entry.registry.prefix === registry.prefix ? entry.name : fullNameOf(entry),
  )
  const known = names.length === 0 ? 'no task is registered' : `expected one of ${names.sort().join(', ')}`
  throw new SpooldError('TASK_UNKNOWN', `${known}, got ${got}`, { details: { task } })
}

/** Refuses an entry whose name is taken. @throws SpooldError TASK_INVALID if another task in `all` has the name */
function refuseTaken(all: Registry, entry: TaskEntry): void {
  const name = fullNameOf(entry)
  const taken = all.named(name)
  if (taken !== undefined && taken !== entry) throw takenTwice(name, taken.place, entry.place)
}

/** Returns the name of a task with its namespace, as in packets. */
export function fullNameOf({ name, registry }: TaskEntry): string {
  return registry.prefix + name
}

export function takenTwice(name: string, first: string, second: string): SpooldError {
  return new SpooldError('TASK_INVALID', `two tasks are named ${name}: one at ${first}, one at ${second}`, {
    details: { name, places: [first, second] },
  })
}

/**
 * The name under which an object has its registry, so that one copy of this package knows the `Tasks` of another one. Change the
 * name with any incompatible change of `Registry`.
 */
export const REGISTRY = Symbol.for('spoold.registry.1')

export interface HasRegistry {
  readonly [REGISTRY]: Registry
}

export function hasRegistry(value: unknown): value is HasRegistry {
  return typeof value === 'object' && value !== null && REGISTRY in value
}

/** Returns the settings that hold for a task. */
export function settingsOf(entry: TaskEntry): KnownSettings {
  return {
    queue: settingOf(entry, 'queue'),
    maxRetries: settingOf(entry, 'maxRetries'),
    backoff: settingOf(entry, 'backoff'),
    retryDelay: settingOf(entry, 'retryDelay'),
    backoffCap: settingOf(entry, 'backoffCap'),
    maxConcurrency: entry.definition.maxConcurrency,
    namespace: entry.registry.inherited('namespace'),
  }
}

export function settingOf<Name extends keyof TaskSettings>(
  { definition, registry }: TaskEntry,
  name: Name,
): TaskSettings[Name] | undefined {
  return definition[name] ?? registry.inherited(name)
}
