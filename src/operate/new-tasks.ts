import { messageOf } from '../base/errors.js'
import { enqueueSync, enqueue as store } from '../client/spool.js'
import { HEADER_BYTES, packetBytesOf } from '../protocol/header.js'
import { type Changed, type OpenSpool, refused, remove, type TargetFile } from '../spool/admin/change.js'
import { NO_PACKET } from '../spool/admin/hold.js'
import { deadNameOf } from '../spool/dead-letters.js'
import { readBody } from '../spool/spool-file.js'
import { displayName, priorityOf, toByteString } from '../task/ref.js'
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
 * Stores a changed copy of a task that does not run by itself (it is held, or a dead letter), and then removes it. After a
 * kill in between both are there, and only the copy runs.
 */
export function edit(at: OpenSpool, file: TargetFile, args: Args): Changed {
  if (file.state === undefined) return NO_PACKET
  const bodyBytes = file.stats.size - packetBytesIn(file.fd)
  if (bodyBytes > MAX_BODY_BYTES) return refused(`its body has ${bodyBytes} bytes: too many to be edited`)
  const pairs = pairsOf(args.vars)
  const priority = priorityOf(deadNameOf(file.ref) ?? file.ref)
  const spool = displayName(at.spool)
  const { path } = enqueueSync(pairs, {
    spooler: spool,
    ...(args.body === undefined ? bodyOf(file, bodyBytes) : bodyIn(args)),
    ...(priority === null || pairs.some(([key]) => key === 'priority') ? {} : { priority }),
  })
  try {
    remove(at, file)
    return { kind: 'done', to: toByteString(path.slice(spool.length + 1)) }
  } catch (error) {
    return refused(
      `the edited task is stored as ${path}, but this one cannot be removed: ${messageOf(error)}`,
    )
  }
}

function packetBytesIn(fd: number): number {
  return packetBytesOf(readBody(fd, 0, HEADER_BYTES))
}

function bodyOf({ fd }: TargetFile, bytes: number): { body?: Buffer } {
  return bytes === 0 ? {} : { body: readBody(fd, packetBytesIn(fd), bytes) }
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
