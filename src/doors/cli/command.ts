import type { CommandContext } from './context.js'

interface Runnable {
  /**
   * @param args the positional arguments
   * @param options as commander parses them by the row's `flags`; each command declares their type for itself
   * @returns the exit code
   */
  run(args: readonly string[], options: object, context: CommandContext): number | Promise<number>
}

/** `-n, --name <value>`, its help, and optionally whether it is required or may be given several times. */
export type Flag = readonly [flags: string, help: string, kind?: 'required' | 'repeatable']

/** A command: its name, its help text and its flags. */
export interface Command {
  readonly name: string
  readonly summary: string
  readonly args: string
  readonly argsHelp?: string
  readonly flags: readonly Flag[]
  /** True if the command also accepts the configuration's options as flags. */
  readonly takesConfiguration?: true
  /** True if the command takes no `--as`: it looks at configurations, as the user that these name, or acts in no spool. */
  readonly actsForNobody?: true
  /** Loads the command on demand, so that commands that scripts call often start without the daemon's libraries. */
  load(): Promise<Runnable['run']>
}
