import type { Ref } from '../../../base/task/ref.js'
import { durationText } from '../../../base/time-text.js'
import type { Ended } from '../../../engines/task-store.js'
import type { Output } from '../output.js'
import { Progress } from '../progress.js'
import { jsonBytes, pathOf } from '../render.js'

export interface ReportOptions {
  readonly quiet?: boolean
  readonly json?: boolean
}

/** The name of a task in the output. */
export interface AwaitedTask {
  readonly shown: string
  readonly ref: Ref
}

export interface UnfinishedTask extends AwaitedTask {
  readonly state: Promise<string>
}

/** The exit code if a word cannot have been a task. */
const EX_UNKNOWN = 4
/** The exit code if not all tasks ended in time, as that of timeout(1). */
const EX_TIMED_OUT = 124
/** The result for a task that is not there, because a task that is done leaves no trace. */
const MAYBE_DONE = 'done or unknown'
/** The most tasks that have not ended and are named. */
const MOST_NAMED = 10

/** Reports how each task ended, and keeps the exit code. */
export class WaitReport {
  readonly #options: ReportOptions
  readonly #output: Output
  readonly #progress: Progress
  exitCode = 0

  constructor(options: ReportOptions, output: Output) {
    this.#options = options
    this.#output = output
    this.#progress = new Progress(output, 'task', options.quiet !== true)
  }

  expect(count: number): void {
    this.#progress.expect(count)
  }

  ended(task: AwaitedTask, how: Ended): void {
    this.#progress.step()
    if (how.kind === 'dead') this.exitCode = Math.max(this.exitCode, 1)
    if (this.#options.json === true) return this.#output.json(asJson(task, how))
    const path = pathOf(task.shown, task.ref)
    switch (how.kind) {
      case 'done':
        return this.#say(`done ${path}`)
      case 'gone':
        return this.#say(`gone ${path}: it is done, or was removed or moved`)
      case 'unknown':
        return this.#output.complain(
          `${MAYBE_DONE} ${path}: it is not there, and no daemon remembers how it ended`,
        )
      case 'dead': {
        const { reason, detail = 'its reason is missing', attempts = 0 } = how.letter ?? {}
        const why = [...(reason === undefined ? [] : [reason]), detail].join(': ')
        return this.#output.complain(`dead ${path}: ${why} (attempts: ${attempts})`)
      }
    }
  }

  /** Reports a word that cannot have been a task. */
  unknown(word: string, why: string): void {
    this.exitCode = Math.max(this.exitCode, EX_UNKNOWN)
    if (this.#options.json === true) this.#output.json({ command: 'wait', name: word, result: 'unknown' })
    else this.#output.complain(`unknown ${word}: ${why}`)
  }

  async unfinished(tasks: readonly UnfinishedTask[], timeoutMs: number): Promise<void> {
    if (tasks.length === 0) return
    this.exitCode = EX_TIMED_OUT
    const named = this.#options.json === true ? tasks : tasks.slice(0, MOST_NAMED)
    for (const task of named) {
      const state = await task.state
      if (this.#options.json === true) this.#output.json(asJson(task, { kind: 'unfinished', state }))
      else
        this.#output.complain(
          `${pathOf(task.shown, task.ref)} has not ended within ${durationText(timeoutMs)}: it is ${state}`,
        )
    }
    if (named.length < tasks.length) this.#output.complain(`nor have ${tasks.length - named.length} more`)
  }

  fault(text: string, exitCode: number): void {
    this.exitCode = Math.max(this.exitCode, exitCode)
    this.#output.complain(text)
  }

  #say(text: string): void {
    if (this.#options.quiet !== true) this.#output.line(text)
  }
}

function asJson(
  { shown: spooler, ref }: AwaitedTask,
  how: Ended | { readonly kind: 'unfinished'; readonly state: string },
): object {
  const name = jsonBytes(Buffer.from(ref, 'latin1'))
  const result = how.kind === 'unknown' ? MAYBE_DONE : how.kind
  const common = { command: 'wait', spooler, name, result }
  if (how.kind === 'unfinished') return { ...common, state: how.state }
  if (how.kind !== 'dead') return common
  const { reason, detail, attempts, buriedAt } = how.letter ?? {}
  return { ...common, reason, detail, attempts, buried: buriedAt }
}
