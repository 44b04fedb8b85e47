import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { timeArg } from '../../../admin/operate/args.js'
import { SpooldError } from '../../../base/errors.js'
import type { TaskOptions } from '../../../engines/client/request-from.js'
import { enqueue as store } from '../../../engines/client/spool.js'
import { allForgotten } from '../../../engines/redis/forgetting.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { realPathOf } from '../../../system/file-stats.js'
import type { CommandContext } from '../context.js'
import {
  becomeWriter,
  type DestinationOptions,
  destinationOf,
  type EnqueueDestination,
} from '../destination.js'
import { type EnqueueWork, enqueueLines } from '../enqueue-lines.js'
import { openInput, pairOf, readInputWhole } from '../task-input.js'

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
  const target = await destinationOf(options, context)
  const { at, priority, id, body, json, quiet = false } = options
  if (args.length === 0 && body === undefined && json === undefined)
    throw new SpooldError('USAGE', 'the task is empty: give it key=value pairs, --body FILE or --json FILE')
  if (json === '-' && body === '-')
    throw new SpooldError('USAGE', '--json and --body cannot both be standard input')
  const pairs = await Promise.all(args.map(pairOf))
  const common: TaskOptions = {
    ...(at === undefined ? {} : { at: timeArg('--at', at) }),
    ...(priority === undefined ? {} : { priority }),
    ...(id === undefined ? {} : { id }),
  }
  const warn = priorityWarning(target, common.priority, context)
  const work = { pairs, common, target, isQuiet: quiet, context, warn, stored: new Set<string>() }
  await tellingWhereTasksGo(work, () =>
    json === undefined ? enqueueOne(work, body) : enqueueJson(work, json, body),
  ).finally(allForgotten)
  return 0
}

async function enqueueOne(work: EnqueueWork, body: string | undefined): Promise<void> {
  const { pairs, common, target, isQuiet, context, warn, stored } = work
  const { stdin, ownProcess, output } = context
  const opened = body === undefined ? {} : { body: openInput('the body', body, stdin) }
  const named = pairs.findLast(([key]) => key === 'spooler')?.[1]
  await becomeWriter(target, ownProcess, named?.toString())
  const { path, isDuplicate } = await store(pairs, { ...target.destination, ...common, ...opened })
  stored.add(path)
  warn(pairs)
  if (isQuiet) return
  output.line(path)
  if (isDuplicate) output.complain('a task with this id was stored before; nothing was added')
}

async function enqueueJson(work: EnqueueWork, file: string, body: string | undefined): Promise<void> {
  const { common, context } = work
  const shared =
    body === undefined ? common : { ...common, body: await readInputWhole('the body', body, context.stdin) }
  await enqueueLines({ ...work, common: shared }, file)
}

/**
 * Stores tasks, and then names each spool directory that was made, and each one with new tasks that no daemon runs. A missing
 * directory is made, as in uWSGI, but in both cases the name may be misspelt.
 */
async function tellingWhereTasksGo(work: EnqueueWork, act: () => Promise<void>): Promise<void> {
  const { target, context, stored } = work
  const { spooler = [] } = target.destination
  const directories = [...new Set([spooler].flat())].filter(each => !isRedisAddress(each))
  const missing = directories.filter(directory => !existsSync(directory))
  try {
    await act()
  } finally {
    for (const directory of directories) {
      const spool = realPathOf(directory)
      if (spool === undefined) continue
      const made = missing.includes(directory) ? `made the spool directory ${resolve(directory)}` : undefined
      const isUsed = [...stored].some(path => path.startsWith(`${spool}/`))
      const isIdle = isUsed && (await isRun(spool)) === false
      const idle = isIdle ? `no daemon runs ${resolve(directory)}: its tasks wait for one` : undefined
      if (made !== undefined || isIdle)
        context.output.complain([made, idle].filter(text => text !== undefined).join('; '))
    }
  }
}

/** True if anybody runs the tasks of the spool; undefined if this process cannot tell. */
async function isRun(spool: string): Promise<boolean | undefined> {
  const { hasDaemon } = await import('../daemons.js')
  return hasDaemon(spool)
}

/** Warns once per run, about the first task with a priority that the daemon would not see. */
function priorityWarning(
  { unordered }: EnqueueDestination,
  common: TaskOptions['priority'],
  { output }: CommandContext,
): EnqueueWork['warn'] {
  let isWarned = unordered === undefined
  return pairs => {
    const priority = common ?? pairs.findLast(([key]) => key === 'priority')?.[1]
    if (isWarned || priority === undefined || String(priority) === '') return
    isWarned = true
    output.complain(`tasks with a priority are not run here: ${unordered} lacks spooler-ordered = true`)
  }
}
