import type { Sources } from '../ini/read-config.js'
import type { Setting } from '../ini/setting.js'
import type { Io } from './io.js'
import type { Output } from './output.js'
import { readVersion } from './version.js'

/** What a command works with. */
export interface CommandContext extends Omit<Io, 'stdout' | 'stderr'> {
  readonly output: Output
  /** The options of the configuration that stand in the command line, in their order. */
  readonly commandLine: readonly Setting[]
}

/** The configuration that a command was given: by the environment, its flags and its files. */
export function sourcesOf(files: readonly string[], { env, commandLine }: CommandContext): Sources {
  return { environment: env, commandLine, files, version: readVersion() }
}
