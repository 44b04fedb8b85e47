import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { messageOf, SpooldError } from '../../base/errors.js'
import { requestFrom, type Value } from '../../client/request-from.js'
import { openDirectoryEnqueuer } from '../../engines/directory-enqueuer.js'

export interface EnqueueOptions {
  readonly spooler: string
  readonly at?: string
  readonly priority?: string
  readonly body?: string
}

/** `spoold enqueue --spooler DIR key=value…`: stores one task and prints its path. */
export async function enqueue(
  pairs: readonly string[],
  { spooler, at, priority, body }: EnqueueOptions,
): Promise<number> {
  const request = requestFrom(Object.fromEntries(pairs.map(pairOf)), {
    ...(at === undefined ? {} : { at }),
    ...(priority === undefined ? {} : { priority }),
    ...(body === undefined ? {} : { body: await readBodyFile(body) }),
  })
  console.log(await openDirectoryEnqueuer(spooler).enqueue(request))
  return 0
}

function pairOf(pair: string): [string, Value] {
  const cut = pair.indexOf('=')
  if (cut <= 0) throw new SpooldError('USAGE', `expected key=value, got ${JSON.stringify(pair)}`)
  return [pair.slice(0, cut), pair.slice(cut + 1)]
}

async function readBodyFile(file: string): Promise<Buffer> {
  try {
    return file === '-' ? await buffer(process.stdin) : await readFile(file)
  } catch (error) {
    throw new SpooldError('FILE_UNREADABLE', `the body ${file} cannot be read: ${messageOf(error)}`, {
      cause: error,
    })
  }
}
