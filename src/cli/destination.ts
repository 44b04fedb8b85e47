import { SpooldError } from '../base/errors.js'
import type { Destination } from '../client/transport.js'
import { resolveOptions } from '../config/options.js'
import { readConfig } from '../config/read-config.js'
import { readVersion } from './version.js'

/** Where `spoold enqueue` was told to put tasks: exactly one of them. */
export interface DestinationOptions {
  readonly spooler?: string
  readonly ini?: string
  readonly socket?: string
}

/** Where tasks go, and what is known of who runs them. */
export interface TaskPlace {
  readonly destination: Destination
  /** The configuration that runs the tasks there and enters no priority directories; undefined: not known to be so. */
  readonly unordered?: string
}

/** @throws SpooldError USAGE */
export function destinationOf({ spooler, ini, socket }: DestinationOptions): TaskPlace {
  if ([spooler, ini, socket].filter(place => place !== undefined).length !== 1)
    throw new SpooldError('USAGE', 'say where: --spooler DIR, --ini FILE or --socket ADDRESS')
  if (socket !== undefined) return { destination: { socket } }
  return ini === undefined ? { destination: { spooler: spooler ?? '' } } : placeOfIni(ini)
}

/** The spools of a configuration; what else is in it, right or wrong, matters to the daemon alone. */
function placeOfIni(file: string): TaskPlace {
  const config = readConfig({ environment: {}, commandLine: [], files: [file], version: readVersion() })
  const { options, spoolTargets } = resolveOptions(config)
  if (spoolTargets.length > 0) {
    // what is external is run by another configuration
    const isUnordered = !options.spoolerOrdered && options.spoolerExternal.length === 0
    const destination = { spooler: spoolTargets, sync: options.spoolerSync }
    return isUnordered ? { destination, unordered: file } : { destination }
  }
  const [problem] = config.problems.errors
  const because = problem === undefined ? '' : `: ${problem.message}`
  throw new SpooldError('CONFIG_INVALID', `${file} names no spooler${because}; add spooler = DIR`)
}
