import type { SelectionOptions } from '../../admin/operate/selection.js'
import { counted } from '../../base/counted.js'
import type { Ref } from '../../base/task/ref.js'
import type { Changed } from '../../engines/spool/admin/change.js'
import type { TaskState, TaskView } from '../../engines/spool/admin/task-view.js'
import type { TaskStore } from '../../engines/task-store.js'
import type { Output } from './output.js'
import type { IniOptions } from './places.js'
import { Progress } from './progress.js'
import { countText, jsonBytes, pathOf } from './render.js'

export interface ChangeOptions extends SelectionOptions, IniOptions {
  readonly all?: boolean
  readonly dryRun?: boolean
  readonly quiet?: boolean
  readonly json?: boolean
}

/** A command that changes tasks. */
export interface Action {
  /** The name of the command. */
  readonly command: string
  /** The action for people: `remove`, and `removed`. */
  readonly verb: string
  readonly done: string
  /** The default states if a whole spool is named; running tasks among them are reported and left alone. */
  readonly states: readonly TaskState[]
  /** True if the action also applies to dead letters, if they are selected. */
  readonly isForDead: boolean
  /** The spool that the tasks are moved to, for output; undefined if they stay. */
  readonly target?: string
  /** Called once before the first change, with the identity that makes the changes. @param isDry true if nothing is changed */
  prepare?(isDry: boolean): Promise<void>
  /** How many tasks are changed at the same time, begun in order; one unless given. */
  readonly atOnce?: number
  /** True if the results are summed up in the end. */
  readonly isSummedUp?: boolean
  /** True if the action ends tasks that run, which may take long, so that several are ended at the same time. */
  readonly endsRuns?: boolean
  act(store: TaskStore, task: TaskView, say: (text: string) => void): Changed | Promise<Changed>
}

/** The result for one task. */
export type Result = Changed | { readonly kind: 'would' }

/** Reports the result for each task, and keeps the exit code, and how far the command has come. */
export class ChangeReport {
  readonly #action: Action
  readonly #options: ChangeOptions
  readonly #output: Output
  readonly #progress: Progress
  #exitCode = 0
  #count = 0
  readonly #results = new Map<Result['kind'], number>()
  /** The number of tasks that will be looked at. */
  #expected = 0
  #looked = 0
  #begun = 0
  #spoolsLeft = 0

  constructor(action: Action, options: ChangeOptions, output: Output) {
    this.#action = action
    this.#options = options
    this.#output = output
    this.#progress = new Progress(output, 'task', options.quiet !== true)
  }

  /** Announces more tasks to look at. */
  expect(count: number): void {
    this.#expected += count
    this.#progress.expect(count)
  }

  expectSpools(count: number): void {
    this.#spoolsLeft = count
  }

  reachedSpool(): void {
    this.#spoolsLeft--
  }

  looked(): void {
    this.#looked++
    this.#progress.step()
  }

  /** Call it when a task that was looked at is about to be changed. */
  begun(): void {
    this.#begun++
  }

  /** Returns how far the command has come: `636 of 5,000 removed`. How many tasks the filters select is known only at the end. */
  tally(): string {
    const { done } = this.#action
    const changed = countText(this.#countOf('done'))
    const all = countText(this.#expected)
    const inHand = this.#begun - [...this.#results.values()].reduce((sum, count) => sum + count, 0)
    return [
      this.#begun === this.#looked
        ? `${changed} of ${all} ${done}`
        : `${changed} ${done}, of ${countText(this.#looked)} that were looked at, of ${all}`,
      ...(inHand === 0 ? [] : [`${countText(inHand)} more may be ${done} by now`]),
      ...(this.#spoolsLeft === 0 ? [] : [`${counted(this.#spoolsLeft, 'more spool')} not reached`]),
    ].join('; ')
  }

  /** @param spool its name in the output */
  add(spool: string, ref: Ref, result: Result): void {
    this.#count++
    this.#results.set(result.kind, this.#countOf(result.kind) + 1)
    if (this.#options.json === true) this.#output.json(asJson(this.#action, spool, ref, result))
    const path = pathOf(spool, ref)
    const { verb, done, target = spool } = this.#action
    switch (result.kind) {
      case 'would':
        return this.#print(`would ${verb} ${path}`)
      case 'done':
        return this.#print(
          `${done} ${path}${result.to === undefined ? '' : ` to ${pathOf(target, result.to)}`}`,
        )
      case 'gone':
        return this.#print(`${path} is gone: it has run, or was removed`)
      case 'running':
        return this.fault(`${path} is running; it was left alone`)
      case 'refused':
        return this.fault(`${path}: ${result.detail}`)
    }
  }

  /** Tells people what happens on the way. */
  say(text: string): void {
    if (this.#options.quiet !== true) this.#output.complain(text)
  }

  fault(text: string, exitCode = 1): void {
    this.#count++
    this.#exitCode = Math.max(this.#exitCode, exitCode)
    this.#output.complain(text)
  }

  end(): number {
    if (this.#count === 0 && this.#options.quiet !== true) this.#output.complain('no task fits')
    if (this.#action.isSummedUp === true && this.#options.dryRun !== true) this.#sumUp()
    return this.#exitCode
  }

  #sumUp(): void {
    const rest = [
      [this.#countOf('running'), 'running, left alone'],
      [this.#countOf('refused'), 'refused'],
      [this.#countOf('gone'), 'gone meanwhile'],
    ] as const
    const parts = rest.filter(([count]) => count > 0).map(([count, what]) => `, ${count} ${what}`)
    const isOne = this.#countOf('done') === 0 && rest.reduce((sum, [count]) => sum + count, 0) === 1
    if (parts.length > 0 && !isOne) this.say(`${this.#action.done} ${this.#countOf('done')}${parts.join('')}`)
  }

  #countOf(kind: Result['kind']): number {
    return this.#results.get(kind) ?? 0
  }

  #print(text: string): void {
    if (this.#options.quiet !== true && this.#options.json !== true) this.#output.line(text)
  }
}

function asJson({ command }: Action, spooler: string, ref: Ref, result: Result) {
  const name = jsonBytes(Buffer.from(ref, 'latin1'))
  const { kind, ...rest } = result
  const to =
    'to' in result && result.to !== undefined ? { to: jsonBytes(Buffer.from(result.to, 'latin1')) } : {}
  return { command, spooler, name, result: kind, ...rest, ...to }
}
