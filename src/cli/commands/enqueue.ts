import { accessSync, constants, createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { describe, messageOf, SpooldError } from '../../base/errors.js'
import type { TaskOptions } from '../../client/request-from.js'
import { enqueue as store } from '../../client/spool.js'
import type { Destination } from '../../client/transport.js'
import type { Value } from '../../client/value.js'
import { parseAt } from '../at-time.js'
import { type DestinationOptions, destinationOf } from '../destination.js'
import { enqueueLines } from '../enqueue-lines.js'
import { output } from '../output.js'

export interface EnqueueOptions extends DestinationOptions {
  readonly at?: string
  readonly priority?: string
  readonly body?: string
  readonly id?: string
  readonly json?: string
  readonly quiet?: boolean
}

export type Pair = readonly [key: string, value: Value]

/** `spoold enqueue`: stores one task, or those of a JSON input, and prints their paths. */
export async function enqueue(args: readonly string[], options: EnqueueOptions): Promise<number> {
  const destination = destinationOf(options)
  const pairs = await Promise.all(args.map(pairOf))
  const { at, priority, id } = options
  const common: TaskOptions = {
    ...(at === undefined ? {} : { at: parseAt(at) }),
    ...(priority === undefined ? {} : { priority }),
    ...(id === undefined ? {} : { id }),
  }
  if (options.json !== undefined) return enqueueJson(options.json, pairs, common, destination, options)
  const { path, isDuplicate } = await store(pairs, {
    ...destination,
    ...common,
    ...(options.body === undefined ? {} : { body: streamBody(options.body) }),
  })
  if (options.quiet !== true) output.line(path)
  if (isDuplicate && options.quiet !== true)
    output.complain('a task with this id was stored before; nothing was added')
  return 0
}

async function enqueueJson(
  file: string,
  pairs: readonly Pair[],
  common: TaskOptions,
  destination: Destination,
  { body, quiet = false }: EnqueueOptions,
): Promise<number> {
  if (file === '-' && body === '-')
    throw new SpooldError('USAGE', '--json and --body cannot both be standard input')
  const shared = body === undefined ? common : { ...common, body: await readBody(body) }
  await enqueueLines({ file, pairs, common: shared, destination, isQuiet: quiet })
  return 0
}

/** `key=value`, or `key=@file` for the bytes of a file; `key=@@value` is a value that begins with @. */
async function pairOf(pair: string): Promise<Pair> {
  const cut = pair.indexOf('=')
  if (cut <= 0) throw new SpooldError('USAGE', `expected key=value, got ${describe(pair)}`)
  const [key, value] = [pair.slice(0, cut), pair.slice(cut + 1)]
  if (!value.startsWith('@')) return [key, value]
  if (value.startsWith('@@')) return [key, value.slice(1)]
  const file = value.slice(1)
  try {
    return [key, await readFile(file)]
  } catch (error) {
    throw unreadable(`the value of ${key},`, file, error)
  }
}

/** Of any size: it goes into the task's file as it comes. What is not there is told before anything is made. */
function streamBody(file: string): AsyncIterable<Uint8Array> {
  try {
    if (file !== '-') accessSync(file, constants.R_OK)
  } catch (error) {
    throw unreadable('the body', file, error)
  }
  return readStream(file)
}

async function* readStream(file: string): AsyncGenerator<Uint8Array> {
  try {
    yield* file === '-' ? process.stdin : createReadStream(file)
  } catch (error) {
    throw unreadable('the body', file, error)
  }
}

async function readBody(file: string): Promise<Buffer> {
  try {
    return file === '-' ? await buffer(process.stdin) : await readFile(file)
  } catch (error) {
    throw unreadable('the body', file, error)
  }
}

function unreadable(what: string, file: string, cause: unknown): SpooldError {
  return new SpooldError('FILE_UNREADABLE', `${what} ${file} cannot be read: ${messageOf(cause)}`, {
    cause,
  })
}
