import { SpooldError } from '../base/errors.js'
import { type ResolvedOptions, resolveOptions } from '../config/options.js'
import { readConfig } from '../ini/read-config.js'
import { readVersion } from './version.js'

/** The flag of commands that find their spools in a configuration. */
export interface IniOptions {
  readonly ini?: string
}

/** Reads a configuration as far as it is valid: a command that looks at its spools does not depend on the rest. */
export function readIni(file: string): ResolvedOptions {
  const config = readConfig({ environment: {}, commandLine: [], files: [file], version: readVersion() })
  const resolved = resolveOptions(config)
  const [problem] = config.problems.errors
  if (resolved.spools.length === 0) {
    const because = problem === undefined ? '' : `: ${problem.message}`
    throw new SpooldError('CONFIG_INVALID', `${file} names no spooler${because}; add spooler = DIR`)
  }
  return resolved
}

/** The spools that a configuration names, each once; those that other daemons run are the last. */
export function spoolsIn(file: string): string[] {
  const { spools } = readIni(file)
  const own = spools.filter(({ isExternal }) => !isExternal)
  return [...new Set([...own, ...spools].map(({ directory }) => directory))]
}

/**
 * The spools that a command is for: those that are named or, if none is, those of `--ini`.
 *
 * @throws SpooldError USAGE, CONFIG_INVALID
 */
export function spoolsOf(named: readonly string[], { ini }: IniOptions): readonly string[] {
  if (named.length > 0) return named
  if (ini === undefined) throw new SpooldError('USAGE', 'name a spool directory, or --ini FILE')
  return spoolsIn(ini)
}
