import { SpooldError } from '../base/errors.js'
import type { Destination } from '../client/transport.js'
import { resolveOptions } from '../config/options.js'
import { readConfig } from '../config/read-config.js'
import { readVersion } from './version.js'

/** Where `spoold enqueue` was told to put tasks: exactly one of them. */
export interface DestinationOptions {
  readonly spooler?: string
  readonly ini?: string
}

/** @throws SpooldError USAGE */
export function destinationOf({ spooler, ini }: DestinationOptions): Destination {
  if ((spooler === undefined) === (ini === undefined))
    throw new SpooldError('USAGE', 'say where: --spooler DIR or --ini FILE')
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
