import { addressedFrom } from '../../engines/client/request-from.js'
import { enqueue as store } from '../../engines/client/spool.js'
import { taskPriority } from '../../engines/spool/admin/task-view.js'
import type { Change } from '../../engines/task-store.js'
import { type Args, given, givenTime, wrongArg } from './args.js'

/** A larger body is not edited, nor copied: it would have to be in memory. */
const MAX_BODY_BYTES = 16 * 1024 * 1024

type Pair = readonly [key: string, value: string]

/** Stores a task. @returns where, for people */
export async function enqueue(spool: string, args: Args): Promise<string> {
  const atMs = givenTime(args, 'at', Date.now())
  const priority = given(args, 'priority')
  const { path } = await store(pairsOf(args.vars), {
    spooler: spool,
    ...bodyIn(args),
    ...(atMs === undefined ? {} : { at: atMs / 1000 }),
    ...(priority === undefined ? {} : { priority }),
  })
  return `stored as ${path}`
}

/**
 * A changed copy of a task that does not run by itself (it is held, or a dead letter) in its place. After a kill in between
 * both are there, and only the copy runs.
 */
export function edit(args: Args): Change {
  return {
    kind: 'replace',
    request(task, body) {
      const bodyBytes = task.file.bytes - task.file.bodyOffset
      if (args.body === undefined && bodyBytes > MAX_BODY_BYTES)
        throw new Error(`its body has ${bodyBytes} bytes: too many to be edited`)
      const pairs = pairsOf(args.vars)
      const priority = taskPriority(task)
      return addressedFrom(pairs, {
        ...(args.body === undefined ? (bodyBytes > 0 ? { body: body() } : {}) : bodyIn(args)),
        ...(priority === null || pairs.some(([key]) => key === 'priority') ? {} : { priority }),
      }).request
    },
  }
}

function bodyIn({ body = '' }: Args): { body?: string } {
  return body === '' ? {} : { body }
}

/**
 * The keys and values of a task, as JSON: an object, or pairs if a key repeats.
 *
 * @throws SpooldError USAGE
 */
function pairsOf(text = ''): Pair[] {
  const pairs = parsed(text)
  const isRight = ([key, value]: readonly unknown[]) => typeof key === 'string' && typeof value === 'string'
  if (pairs === undefined || !pairs.every(pair => pair.length === 2 && isRight(pair)))
    throw wrongArg('vars', 'a JSON object whose values are texts, or an array of [key, value]', text)
  const known = pairs as unknown as Pair[]
  // it would name another directory
  if (known.some(([key]) => key === 'spooler')) throw wrongArg('vars', 'no key spooler', text)
  return known
}

function parsed(text: string): ReadonlyArray<readonly unknown[]> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (Array.isArray(value)) return value.every(Array.isArray) ? value : undefined
    return typeof value === 'object' && value !== null ? Object.entries(value) : undefined
  } catch {
    return undefined
  }
}
