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

/** @throws SpooldError USAGE */
export function destinationOf({ spooler, ini, socket }: DestinationOptions): Destination {
  if ([spooler, ini, socket].filter(place => place !== undefined).length !== 1)
    throw new SpooldError('USAGE', 'say where: --spooler DIR, --ini FILE or --socket ADDRESS')
  if (socket !== undefined) return { socket }
  return ini === undefined ? { spooler: spooler ?? '' } : destinationOfIni(ini)
}

/** The spools of a configuration; what else is in it, right or wrong, matters to the daemon alone. */
function destinationOfIni(file: string): Destination {
  const config = readConfig({ environment: {}, commandLine: [], files: [file], version: readVersion() })
  const { options, spoolTargets } = resolveOptions(config)
  if (spoolTargets.length > 0) return { spooler: spoolTargets, sync: options.spoolerSync }
  const [problem] = config.problems.errors
  const because = problem === undefined ? '' : `: ${problem.message}`
  throw new SpooldError('CONFIG_INVALID', `${file} names no spooler${because}; add spooler = DIR`)
}
