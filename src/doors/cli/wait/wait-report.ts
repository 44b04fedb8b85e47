import { durationText } from '../../../base/duration.js'
import { toByteString } from '../../../base/task/ref.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import type { Ended } from '../../../engines/task-store.js'
import type { Output } from '../output.js'
import { Progress } from '../progress.js'
import { jsonBytes, terminalName } from '../render.js'
import type { AwaitedTask } from './awaited-tasks.js'

export interface ReportOptions {
  readonly quiet?: boolean
  readonly json?: boolean
}

/** As timeout(1): not all of them ended in time. */
const EX_TIMED_OUT = 124
/** So many tasks that have not ended are named. */
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
    this.#progress = new Progress(output, 'tasks', options.quiet !== true)
  }

  expect(count: number): void {
    this.#progress.expect(count)
  }

  ended(task: AwaitedTask, how: Ended): void {
    this.#progress.step()
    if (how.kind === 'dead') this.exitCode = Math.max(this.exitCode, 1)
    if (this.#options.json === true) return this.#output.line(JSON.stringify(asJson(task, how)))
    const path = pathOf(task)
    switch (how.kind) {
      case 'done':
        return this.#say(`done ${path}`)
      case 'gone':
        return this.#say(`gone ${path}: it is done, or was removed or moved`)
      case 'unknown':
        return this.#say(`done or unknown ${path}: it is not there, and a task that is done leaves no trace`)
      case 'dead': {
        const { reason, detail = 'its reason is missing', attempts = 0 } = how.letter ?? {}
        const why = [...(reason === undefined ? [] : [reason]), detail].join(': ')
        return this.#output.complain(`dead ${path}: ${why} (attempts: ${attempts})`)
      }
    }
  }

  async unfinished(tasks: readonly AwaitedTask[], timeoutMs: number): Promise<void> {
    if (tasks.length === 0) return
    this.exitCode = EX_TIMED_OUT
    const named = this.#options.json === true ? tasks : tasks.slice(0, MOST_NAMED)
    for (const task of named) {
      const state = await stateOf(task)
      if (this.#options.json === true)
        this.#output.line(JSON.stringify(asJson(task, { kind: 'unfinished', state })))
      else
        this.#output.complain(
          `${pathOf(task)} has not ended within ${durationText(timeoutMs)}: it is ${state}`,
        )
    }
    if (named.length < tasks.length) this.#output.complain(`nor have ${tasks.length - named.length} others`)
  }

  fault(text: string): void {
    this.exitCode = Math.max(this.exitCode, 1)
    this.#output.complain(text)
  }

  #say(text: string): void {
    if (this.#options.quiet !== true) this.#output.line(text)
  }
}

async function stateOf({ spool, ref }: AwaitedTask): Promise<string> {
  try {
    return (await (await openTaskStore(spool)).view(ref))?.state ?? 'gone'
  } catch {
    return 'closed to this user'
  }
}

function pathOf({ shown, ref }: AwaitedTask): string {
  return terminalName(Buffer.from(`${toByteString(shown)}/${ref}`, 'latin1'))
}

function asJson(
  { shown: spooler, ref }: AwaitedTask,
  how: Ended | { readonly kind: 'unfinished'; readonly state: string },
): object {
  const name = jsonBytes(Buffer.from(ref, 'latin1'))
  const common = { command: 'wait', spooler, name, result: how.kind }
  if (how.kind === 'unfinished') return { ...common, state: how.state }
  if (how.kind !== 'dead') return common
  const { reason, detail, attempts, buriedAt } = how.letter ?? {}
  return { ...common, reason, detail, attempts, buried: buriedAt }
}
