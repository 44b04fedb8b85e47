import type { Sources } from '../../formats/ini/read-config.js'
import type { Setting } from '../../formats/ini/setting.js'
import type { Interruption } from './interruption.js'
import type { Io } from './io.js'
import type { Output } from './output.js'
import { readVersion } from './version.js'

/** The environment of a command. */
export interface CommandContext extends Omit<Io, 'stdout' | 'stderr' | 'signals'> {
  readonly output: Output
  readonly interruption: Interruption
  /** The configuration's options given on the command line, in order. */
  readonly commandLine: readonly Setting[]
}

/** The sources of a command's configuration: environment, flags and files. */
export function sourcesOf(files: readonly string[], { env, commandLine }: CommandContext): Sources {
  return { environment: env, commandLine, files, version: readVersion() }
}
