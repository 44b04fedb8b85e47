import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { SpooldError } from '../../../base/errors.js'
import type { TaskOptions } from '../../../engines/client/request-from.js'
import { enqueue as store } from '../../../engines/client/spool.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { parseAt } from '../at-time.js'
import type { CommandContext } from '../context.js'
import {
  becomeWriter,
  type DestinationOptions,
  destinationOf,
  type EnqueueDestination,
} from '../destination.js'
import { enqueueLines } from '../enqueue-lines.js'
import { openInput, type Pair, pairOf, readInputWhole } from '../task-input.js'

interface EnqueueOptions extends DestinationOptions {
  readonly at?: string
  readonly priority?: string
  readonly body?: string
  readonly id?: string
  readonly json?: string
  readonly quiet?: boolean
}

/** `spoold enqueue`: stores one task, or the tasks of a JSON input, and prints their paths. */
export async function enqueue(
  args: readonly string[],
  options: EnqueueOptions,
  context: CommandContext,
): Promise<number> {
  const target = destinationOf(options)
  const { at, priority, id, body, json, quiet = false } = options
  if (args.length === 0 && body === undefined && json === undefined)
    throw new SpooldError('USAGE', 'the task is empty: give it key=value pairs, --body FILE or --json FILE')
  if (json === '-' && body === '-')
    throw new SpooldError('USAGE', '--json and --body cannot both be standard input')
  const pairs = await Promise.all(args.map(pairOf))
  const common: TaskOptions = {
    ...(at === undefined ? {} : { at: parseAt(at) }),
    ...(priority === undefined ? {} : { priority }),
    ...(id === undefined ? {} : { id }),
  }
  const work = { pairs, common, target, isQuiet: quiet, context, warn: priorityWarning(target, context) }
  await tellingWhatIsMade(work, () =>
    json === undefined ? enqueueOne(work, body) : enqueueJson(work, json, body),
  )
  return 0
}

interface Work {
  readonly pairs: readonly Pair[]
  readonly common: TaskOptions
  readonly target: EnqueueDestination
  readonly isQuiet: boolean
  readonly context: CommandContext
  /** Called for each stored task. */
  warn(task: { readonly pairs: readonly Pair[]; readonly common: TaskOptions }): void
}

async function enqueueOne(work: Work, body: string | undefined): Promise<void> {
  const { pairs, common, target, isQuiet, context, warn } = work
  const { stdin, ownProcess, output } = context
  const opened = body === undefined ? {} : { body: openInput('the body', body, stdin) }
  await becomeWriter(target, ownProcess)
  const { path, isDuplicate } = await store(pairs, { ...target.destination, ...common, ...opened })
  warn(work)
  if (isQuiet) return
  output.line(path)
  if (isDuplicate) output.complain('a task with this id was stored before; nothing was added')
}

async function enqueueJson(work: Work, file: string, body: string | undefined): Promise<void> {
  const { common, target, context } = work
  const { stdin, ownProcess } = context
  const shared =
    body === undefined ? common : { ...common, body: await readInputWhole('the body', body, stdin) }
  const opened = () => becomeWriter(target, ownProcess)
  await enqueueLines({ ...work, file, common: shared, destination: target.destination, opened })
}

/** Reports a spool directory that was created: a missing one is created, as in uWSGI, but it may be a misspelt name. */
async function tellingWhatIsMade(work: Work, act: () => Promise<void>): Promise<void> {
  const { target, isQuiet, context } = work
  const { spooler = [] } = target.destination
  const directories = [spooler].flat().filter(each => !isRedisAddress(each))
  const missing = directories.filter(directory => !existsSync(directory))
  try {
    await act()
  } finally {
    for (const directory of missing)
      if (!isQuiet && existsSync(directory))
        context.output.complain(`made the spool directory ${resolve(directory)}`)
  }
}

/** Warns once per run, about the first task with a priority that the daemon would not see. */
function priorityWarning({ unordered }: EnqueueDestination, { output }: CommandContext): Work['warn'] {
  let isWarned = unordered === undefined
  return ({ pairs, common }) => {
    const priority = common.priority ?? pairs.findLast(([key]) => key === 'priority')?.[1]
    if (isWarned || priority === undefined || String(priority) === '') return
    isWarned = true
    output.complain(`tasks with a priority are not run here: ${unordered} lacks spooler-ordered = true`)
  }
}
