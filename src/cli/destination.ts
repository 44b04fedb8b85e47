import { realpathSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { SpooldError } from '../base/errors.js'
import type { Destination } from '../client/target.js'
import type { Options } from '../config/option-table.js'
import { resolveOptions } from '../config/options.js'
import { readConfig } from '../ini/read-config.js'
import { makeSpoolFor } from '../spool/layout.js'
import { type Identity, identityOf } from '../system/privileges.js'
import { type OwnProcess, ownerOf } from './acting-owner.js'
import { readVersion } from './version.js'

/** Where `spoold enqueue` was told to put tasks: exactly one of them. */
export interface DestinationOptions {
  readonly spooler?: string
  readonly ini?: string
  readonly socket?: string
}

/** Where tasks go, and what is known of who runs them. */
export interface EnqueueDestination {
  readonly destination: Destination
  /** The configuration that runs the tasks there and enters no priority directories; undefined: not known to be so. */
  readonly unordered?: string
  /** Whom root becomes to store them; null: nobody else. */
  readonly identity: Identity | null
}

/** @throws SpooldError USAGE, USER_UNKNOWN */
export function destinationOf({ spooler, ini, socket }: DestinationOptions): EnqueueDestination {
  if ([spooler, ini, socket].filter(place => place !== undefined).length !== 1)
    throw new SpooldError('USAGE', 'say where: --spooler DIR, --ini FILE or --socket ADDRESS')
  if (socket !== undefined) return { destination: { socket }, identity: null }
  if (ini !== undefined) return destinationOfIni(ini)
  return { destination: { spooler: spooler ?? '' }, identity: makerIn(spooler ?? '') }
}

/** The spools of a configuration; what else is in it, right or wrong, matters to the daemon alone. */
function destinationOfIni(file: string): EnqueueDestination {
  const config = readConfig({ environment: {}, commandLine: [], files: [file], version: readVersion() })
  const { options, spools } = resolveOptions(config)
  const [first] = spools
  if (first !== undefined) {
    // what is external is run by another configuration
    const isUnordered = spools.every(spool => !spool.isExternal && spool.options.spoolerOrdered === false)
    const destination = {
      spooler: spools.map(({ directory }) => directory),
      sync: spools.some(spool => spool.options.spoolerSync), // which one a task goes to, it says itself
    }
    const identity = writerIn(first.directory, options)
    return { destination, identity, ...(isUnordered ? { unordered: file } : {}) }
  }
  const [problem] = config.problems.errors
  const because = problem === undefined ? '' : `: ${problem.message}`
  throw new SpooldError('CONFIG_INVALID', `${file} names no spooler${because}; add spooler = DIR`)
}

/** Root stores tasks as who runs them, so that they can be run: the user of the configuration, or the spool's owner. */
function writerIn(spool: string, options: Options): Identity | null {
  if (process.geteuid?.() !== 0) return null
  return identityOf(options) ?? makerIn(spool)
}

/** Of a directory that is missing, who owns the one above it makes it. */
function makerIn(spool: string): Identity | null {
  for (const path of [spool, dirname(resolve(spool))])
    try {
      return ownerOf(realpathSync(path))
    } catch {} // it is not there
  return null
}

/** For good; the files that the caller named are open by then. */
export async function becomeWriter(
  { destination: { spooler = [] }, identity }: EnqueueDestination,
  ownProcess: OwnProcess,
): Promise<void> {
  if (identity === null) return
  for (const spool of [spooler].flat()) makeSpoolFor(spool, identity)
  await ownProcess.become(identity)
}
