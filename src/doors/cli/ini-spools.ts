import { basename, join } from 'node:path'
import { SpooldError } from '../../base/errors.js'
import { resolveOptions } from '../../formats/config/options.js'
import { readConfig } from '../../formats/ini/read-config.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import { shownPath } from './redis-paths.js'
import { placesOf } from './task-paths.js'
import { readVersion } from './version.js'

/** An address is no path: `join` would make one slash of two. */
function pathIn(spool: string, name: string): string {
  return isRedisAddress(spool) ? `${spool}/${name}` : join(spool, name)
}

/** The flag of commands that find their spools in a configuration. */
export interface IniOptions {
  readonly ini?: string
}

/**
 * The spools that a configuration names, each once; those that other daemons run are the last. Errors elsewhere in the file
 * do not matter here.
 */
function spoolsIn(file: string): string[] {
  const config = readConfig({ environment: {}, commandLine: [], files: [file], version: readVersion() })
  const { spools } = resolveOptions(config)
  const [problem] = config.problems.errors
  if (spools.length === 0) {
    const because = problem === undefined ? '' : `: ${problem.message}`
    throw new SpooldError('CONFIG_INVALID', `${file} names no spooler${because}; add spooler = DIR`)
  }
  const own = spools.filter(({ isExternal }) => !isExternal)
  return [...new Set([...own, ...spools].map(({ directory }) => shownPath(directory)))]
}

/**
 * The spools that a command is for: those that are named or, if none is, those of `--ini`.
 *
 * @throws SpooldError USAGE, CONFIG_INVALID
 */
export function spoolsOf(named: readonly string[], { ini }: IniOptions): readonly string[] {
  if (named.length > 0) return named.map(shownPath)
  if (ini === undefined) throw new SpooldError('USAGE', 'name a spool directory, or --ini FILE')
  return spoolsIn(ini)
}

/**
 * The paths that a command is for. With `--ini`, a bare name is looked up in the configuration's spools, their priorities and
 * dead letters; without any path, they are the spools themselves.
 *
 * @returns for each argument its path, or several if tasks have the same name
 * @throws SpooldError USAGE, CONFIG_INVALID
 */
export function pathsOf(named: readonly string[], { ini }: IniOptions): ReadonlyArray<readonly string[]> {
  if (ini === undefined) {
    if (named.length === 0) throw new SpooldError('USAGE', 'name a file or a spool directory, or --ini FILE')
    return named.map(path => [shownPath(path)])
  }
  const spools = spoolsIn(ini)
  if (named.length === 0) return spools.map(spool => [spool])
  return named.map(name => {
    if (basename(name) !== name) return [shownPath(name)]
    const found = spools.flatMap(spool => (isRedisAddress(spool) ? [] : placesOf(spool, name)))
    const [first = ''] = spools.length === 1 ? spools : spools.filter(isRedisAddress)
    return found.length > 0 ? found : [first === '' ? name : pathIn(first, name)]
  })
}

/**
 * As `pathsOf`, for tasks that may be gone, or are named by their ids.
 *
 * @returns for each argument its path, or the paths that it may have
 * @throws SpooldError USAGE, CONFIG_INVALID
 */
export function candidatesOf(
  named: readonly string[],
  { ini }: IniOptions,
): ReadonlyArray<readonly string[]> {
  if (named.length === 0)
    throw new SpooldError('USAGE', 'name a task: its file, or its name or id and --ini FILE')
  if (ini === undefined) return named.map(path => [shownPath(path)])
  const spools = spoolsIn(ini)
  return named.map(name =>
    basename(name) === name ? spools.map(spool => pathIn(spool, name)) : [shownPath(name)],
  )
}
