import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Command } from 'commander'
import { type CheckedConfig, checkConfig } from '#src/doors/check/check.js'
import { addOptionFlags, completeAbbreviations } from '#src/doors/cli/option-flags.js'
import { type Config, readConfig, type Sources } from '#src/formats/ini/read-config.js'
import type { Setting } from '#src/formats/ini/setting.js'
import { workspace } from '../helpers/workspace.js'

export interface Given {
  /** Files by name; `app.ini` is the one that is read when `argv` names none. */
  readonly files?: Readonly<Record<string, string | Buffer>>
  readonly argv?: readonly string[]
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly version?: string
}

interface Parsed {
  readonly settings: readonly Setting[]
  readonly files: readonly string[]
}

/** Parses a command line as the program does. */
function parseArguments(argv: readonly string[]): Parsed {
  const settings: Setting[] = []
  const args = completeAbbreviations(argv)
  const command = new Command()
    .exitOverride()
    .configureOutput({ writeErr() {}, writeOut() {} })
    .argument('[files...]')
    .action(() => {})
  addOptionFlags(command, settings, args)
  command.parse(args, { from: 'user' })
  return { settings, files: command.args }
}

/** Writes files into a new directory, enters it, and returns what to read there. */
export function sourcesOf({
  files = {},
  argv = ['--ini', 'app.ini'],
  env = {},
  version = '0',
}: Given): Sources {
  const directory = workspace()
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true })
    writeFileSync(join(directory, name), text)
  }
  process.chdir(directory)
  const parsed = parseArguments(argv)
  return { environment: env, commandLine: parsed.settings, files: parsed.files, version }
}

export function readGiven(given: Given): Config {
  return readConfig(sourcesOf(given))
}

export function checkGiven(given: Given): CheckedConfig {
  return checkConfig(sourcesOf(given))
}
