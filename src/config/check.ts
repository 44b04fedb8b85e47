import { accessSync, constants, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { messageOf } from '../base/errors.js'
import { findGroup, findUser } from './identity.js'
import type { Options } from './option-table.js'
import { type ResolvedOptions, resolveOptions } from './options.js'
import { readConfig, type Sources } from './read-config.js'
import type { Problems, Where } from './setting.js'

export interface CheckedConfig extends ResolvedOptions {
  readonly files: readonly string[]
  readonly problems: Problems
}

const NOWHERE: Where = { file: 'configuration' }

/**
 * Reads and checks a whole configuration without starting or making anything. Every problem is found at once, each with
 * the place where it was written; the options are usable when none of them is an error.
 */
export function checkConfig(sources: Sources): CheckedConfig {
  const config = readConfig(sources)
  const resolved = resolveOptions(config)
  checkMeaning(resolved, config.problems)
  return { ...resolved, files: config.files, problems: config.problems }
}

function checkMeaning({ options, origins }: ResolvedOptions, problems: Problems): void {
  const where = (name: string, i = 0) => origins.get(name)?.[i] ?? NOWHERE
  const home = options.chdir === null ? process.cwd() : resolve(options.chdir)
  if (options.spooler.length === 0) problems.error(NOWHERE, 'there is no spool directory; add spooler = DIR')
  if (options.spoolerImport.length === 0)
    problems.error(
      NOWHERE,
      'there is no handler; add spooler-import = FILE, a JavaScript module that exports a function',
    )
  for (const [i, path] of options.spooler.entries()) checkDirectoryOrFree(path, where('spooler', i), problems)
  for (const [i, file] of options.spoolerImport.entries())
    checkFile(resolve(home, file), where('spooler-import', i), problems)
  if (options.chdir !== null) checkDirectory(options.chdir, 'chdir', where('chdir'), problems)
  if (options.spoolerChdir !== null)
    checkDirectory(resolve(home, options.spoolerChdir), 'spooler-chdir', where('spooler-chdir'), problems)
  for (const name of ['uid', 'gid'] as const) checkIdentity(options, name, where(name), problems)
  checkNumbers(options, where, problems)
}

function checkNumbers(options: Options, where: (name: string) => Where, problems: Problems): void {
  if (options.spoolerConcurrency === 0)
    problems.error(where('spooler-concurrency'), 'spooler-concurrency: expected at least 1, got 0')
  if (options.spoolerFrequencyMs === 0)
    problems.error(
      where('spooler-frequency'),
      'spooler-frequency: expected more than 0, got 0 (in uWSGI that is a busy loop)',
    )
  if (options.spoolerProcesses > 1024)
    problems.error(
      where('spooler-processes'),
      `spooler-processes: expected at most 1024, got ${options.spoolerProcesses}`,
    )
}

function checkDirectoryOrFree(path: string, where: Where, problems: Problems): void {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats !== undefined) {
    if (!stats.isDirectory()) problems.error(where, `spooler: expected a directory, got the file ${path}`)
  } else if (statSync(resolve(path, '..'), { throwIfNoEntry: false }) === undefined) {
    problems.error(where, `spooler: ${path} cannot be made, because ${resolve(path, '..')} does not exist`)
  }
}

function checkDirectory(path: string, name: string, where: Where, problems: Problems): void {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory())
    problems.error(where, `${name}: expected a directory, got ${path}`)
}

function checkFile(path: string, where: Where, problems: Problems): void {
  try {
    if (!statSync(path).isFile()) return problems.error(where, `spooler-import: expected a file, got ${path}`)
    accessSync(path, constants.R_OK)
  } catch (error) {
    problems.error(where, `spooler-import: ${path} cannot be read: ${messageOf(error)}`)
  }
}

function checkIdentity(options: Options, name: 'uid' | 'gid', where: Where, problems: Problems): void {
  const wanted = options[name]
  if (wanted === null) return
  const number = name === 'uid' ? findUser(wanted) : findGroup(wanted)
  if (number === undefined)
    return problems.error(where, `${name}: ${name === 'uid' ? 'user' : 'group'} ${wanted} not found`)
  const mine = (name === 'uid' ? process.geteuid : process.getegid)?.()
  if (process.geteuid?.() !== 0 && number !== mine)
    problems.error(where, `${name}: only root can become ${wanted} (${number}); this process is ${mine}`)
}
