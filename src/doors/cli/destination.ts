import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { SpooldError } from '../../base/errors.js'
import type { Destination } from '../../engines/client/target.js'
import { makeSpoolFor } from '../../engines/spool/permissions.js'
import type { Options } from '../../formats/config/option-table.js'
import { addressOf } from '../../formats/config/spools.js'
import { fallbackOf, isRedisAddress } from '../../formats/protocol/redis-address.js'
import { type Identity, identityOf } from '../../system/privileges.js'
import { ownerOf } from './acting-owner.js'
import type { CommandContext } from './context.js'
import type { OwnProcess } from './own-process.js'
import { readIni } from './places.js'

/** The flags of `spoold enqueue` that say where tasks go; exactly one must be given. */
export interface DestinationOptions {
  readonly spooler?: string
  readonly ini?: string
  readonly socket?: string
}

/** Where tasks go, and what is known of the daemon that runs them. */
export interface EnqueueDestination {
  readonly destination: Destination
  /** The configuration of a daemon that does not enter priority directories; undefined if no such daemon is known. */
  readonly unordered?: string
  /**
   * Returns the identity that root takes on to store tasks; null if this process keeps its own.
   *
   * @param named the spool that the tasks themselves name
   */
  writer(named?: string): Identity | null
}

/** Returns the destination that the flags name. @throws SpooldError USAGE, USER_UNKNOWN */
export async function destinationOf(
  { spooler, ini, socket }: DestinationOptions,
  context: CommandContext,
): Promise<EnqueueDestination> {
  if ([spooler, ini, socket].filter(place => place !== undefined).length !== 1)
    throw new SpooldError('USAGE', 'say where, with one of --spooler DIR, --ini FILE and --socket ADDRESS')
  if (socket !== undefined) return { destination: { socket }, writer: () => null }
  if (ini !== undefined) return destinationOfIni(ini, context)
  return { destination: { spooler: spooler ?? '' }, writer: () => makerIn(spooler ?? '') }
}

/** The destination given by a configuration's spools. The other options, valid or not, concern only the daemon. */
async function destinationOfIni(file: string, context: CommandContext): Promise<EnqueueDestination> {
  const { options, spools } = await readIni(file, context)
  const [first] = spools
  // tasks of external spools are run under another configuration
  const isUnordered = spools.every(spool => !spool.isExternal && spool.options.spoolerOrdered === false)
  const destination = {
    spooler: spools.map(spool => addressOf(spool)),
    sync: spools.some(spool => spool.options.spoolerSync), // the spool of a task is known only when the task is read
  }
  const writer = (named?: string) => {
    const spool = named ?? (first && addressOf(first))
    return spool === undefined ? null : writerIn(spool, options)
  }
  return { destination, writer, ...(isUnordered ? { unordered: file } : {}) }
}

/** Root stores tasks as the user who will run them: the configured user, or else the spool's owner. */
function writerIn(spool: string, options: Options): Identity | null {
  if (process.geteuid?.() !== 0) return null
  return identityOf(options) ?? makerIn(spool)
}

/** The directory to which a task may be written; undefined if there is none. */
export function localOf(spool: string): string | undefined {
  return isRedisAddress(spool) ? fallbackOf(spool) : spool
}

/** The owner of the spool; a missing spool is created as the owner of its parent directory. */
function makerIn(spool: string): Identity | null {
  const directory = localOf(spool)
  if (directory === undefined) return null
  const path = resolve(directory)
  return ownerOf(existsSync(path) ? path : dirname(path))
}

/** Makes missing spools, and makes root the writer of the tasks for good. Call it when the files that the user named are open. */
export async function becomeWriter(
  { destination: { spooler = [] }, writer }: EnqueueDestination,
  ownProcess: OwnProcess,
  named?: string,
): Promise<void> {
  const identity = writer(named)
  if (identity === null) return
  for (const directory of [spooler].flat().flatMap(spool => localOf(spool) ?? []))
    makeSpoolFor(directory, identity)
  await ownProcess.become(identity)
}
