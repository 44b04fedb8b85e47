import { Command, CommanderError, Option } from 'commander'
import { errnoOf, SpooldError, toError } from '../base/errors.js'
import { obeyEarlySignals } from '../daemon/early-signals.js'
import type { Sources } from '../ini/read-config.js'
import type { Setting } from '../ini/setting.js'
import { refuseChangedBytes } from './argument-bytes.js'
import type { EnqueueOptions } from './commands/enqueue.js'
import type { SignalOptions } from './commands/signal.js'
import { addExaminers } from './examiners.js'
import { commandExitCode } from './exit-code.js'
import { refuseMistyped } from './mistyped.js'
import { addOptionFlags, BACKGROUND_FLAG, completeAbbreviations, UNDER_ROOT_FLAG } from './option-flags.js'
import { output, ReaderGone } from './output.js'
import { addTaskCommands, TASK_COMMANDS } from './task-commands.js'
import { readVersion } from './version.js'

const USAGE = new SpooldError('USAGE', 'the command line is wrong')
const TAKES_NO_CONFIGURATION = new Set(['enqueue', 'signal', 'fsck', 'doctor', 'help', ...TASK_COMMANDS])
const COMMANDS = new Set(['check', ...TAKES_NO_CONFIGURATION])

/** Runs one command line. @returns the exit code */
export async function main(given: readonly string[]): Promise<number> {
  // alone it is nobody's max-vars, which is what uWSGI makes of it
  const argv = given.length === 1 && given[0] === '-v' ? ['--version'] : given
  const isCommand = TAKES_NO_CONFIGURATION.has(argv[0] ?? '')
  if (COMMANDS.has(argv[0] ?? '')) obeyEarlySignals()
  let exitCode = 0
  try {
    refuseChangedBytes(argv)
    refuseMistyped(argv[0] ?? '', [...COMMANDS])
    const args = isCommand ? argv : completeAbbreviations(argv)
    const program = createProgram(args, code => {
      exitCode = code
    })
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    exitCode = exitCodeOf(error, isCommand)
  }
  return output.exitCode(exitCode)
}

function exitCodeOf(error: unknown, isCommand: boolean): number {
  if (error instanceof ReaderGone) return 0
  if (error instanceof CommanderError)
    return error.exitCode === 0 ? 0 : isCommand ? commandExitCode(USAGE) : 1
  const named = withCode(error)
  complain(named)
  return isCommand || isOfCommandLine(named) ? commandExitCode(named) : 1
}

/** It has the same exit code whatever was asked for. */
function isOfCommandLine(error: unknown): boolean {
  return error instanceof SpooldError && (error.code === 'USAGE' || error.code === 'OUTPUT_FAILED')
}

/** A command is loaded when it is called: those that scripts call often do without the daemon's libraries. */
function createProgram(argv: readonly string[], done: (exitCode: number) => void): Command {
  const settings: Setting[] = []
  const sources = (files: readonly string[]): Sources => ({
    environment: process.env,
    commandLine: settings,
    files,
    version: readVersion(),
  })

  const program = new Command('spoold')
    .description('Runs background tasks from plain files: a drop-in uWSGI spooler.')
    .version(readVersion(), '--version')
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut(text) {
        output.purpose = 'look'
        output.write(text)
      },
      writeErr: text => output.writeError(text),
      outputError: (text, write) => write(usageError(text, argv)),
    })
    .helpCommand('help [command]', 'display help for a command')
    .argument('[files...]', 'ini files, each as FILE or FILE:SECTION')
    .usage('[app.ini] [--option value…]')
    .addOption(new Option(`${BACKGROUND_FLAG} <sockets>`).hideHelp())
    .addOption(new Option(`${UNDER_ROOT_FLAG} <sockets>`).hideHelp())
    .addHelpText('after', EXAMPLES)
    .action(async (files: string[], { inBackground, underRoot }) => {
      const { run } = await import('./commands/run.js')
      done(
        await run(sources(files), {
          backgroundSockets: inBackground === undefined ? undefined : Number(inBackground),
          parentsSockets: underRoot === undefined ? undefined : Number(underRoot),
        }),
      )
    })
  addOptionFlags(program, settings, argv)

  const checker = program
    .command('check')
    .description(
      'print every error and warning of a configuration, with file:line; exit 1 if there is an error',
    )
    .argument('[files...]', 'as for running')
    .action(async (files: string[]) => {
      const { check } = await import('./commands/check.js')
      done(check(sources(files)))
    })
  addOptionFlags(checker, settings, argv)
  addExaminers(program, sources, done)

  addTaskCommands(program, done)

  program
    .command('enqueue')
    .description('store a task, or many, and print where; exit 0 stored, 75 try again, 64 wrong usage')
    .argument('[key=value...]', 'the pairs; key=@file takes the bytes of a file')
    .option('--spooler <dir>', 'the spool directory')
    .option('--ini <file>', 'the first spooler of this configuration')
    .option('--socket <address>', 'the socket of a daemon: host:3031, /path.sock or @abstract')
    .option('--json <file>', 'one JSON object, or one a line; - is standard input')
    .option('--at <time>', "not before: '2026-12-24 08:00', +5m, or epoch seconds")
    .option('--priority <n>', 'the priority directory; needs spooler-ordered')
    .option('--body <file>', 'the body; - is standard input')
    .option('--id <text>', 'store it only once: the same id again changes nothing')
    .option('--quiet', 'print nothing when all went well')
    .action(async (pairs: string[], options: EnqueueOptions) => {
      const { enqueue } = await import('./commands/enqueue.js')
      done(await enqueue(pairs, options))
    })

  program
    .command('signal')
    .description('raise a signal in a daemon; exit 0 taken, 75 try again, 64 wrong usage')
    .argument('<number>', '0 to 255')
    .option('--socket <address>', 'the socket of the daemon: host:3031, /path.sock or @abstract')
    .option('--ini <file>', 'the first socket of this configuration')
    .action(async (number: string, options: SignalOptions) => {
      const { signal } = await import('./commands/signal.js')
      done(await signal(number, options))
    })

  return program
}

/** What the operating system says needs no stack: it is not ours to fix. */
function withCode(thrown: unknown): unknown {
  if (thrown instanceof SpooldError || errnoOf(thrown) === undefined) return thrown
  if (!(thrown instanceof Error) || !('syscall' in thrown)) return thrown
  const text =
    thrown.syscall === 'uv_cwd'
      ? `the current directory is gone, or closed to uid ${process.geteuid?.()}: cd to another one (${thrown.message})`
      : `uid ${process.geteuid?.()} is refused: ${thrown.message}`
  return new SpooldError('SYSTEM_REFUSED', text, { cause: thrown })
}

/** A sentence for what people can fix, with the code under which docs/errors.md explains it; else a stack. */
function complain(thrown: unknown): void {
  const error = toError(thrown)
  const text =
    error instanceof SpooldError ? `[${error.code}] ${error.message}` : (error.stack ?? error.message)
  output.complain(text)
}

/** commander's words as one sentence that says where to look. */
function usageError(text: string, [command = '']: readonly string[]): string {
  const said = text
    .replace(/^error: /, '')
    .trim()
    .replaceAll('\n', ' ')
  const help = COMMANDS.has(command) ? `spoold ${command} --help` : 'spoold --help'
  return `spoold: ${said}; see ${help}\n`
}

const EXAMPLES = `
Examples:
  spoold app.ini                                     run
  spoold --spooler /var/spool/app --spooler-import handler.js
  spoold check app.ini                               is it right?
  spoold doctor app.ini                              is the machine ready for it?
  spoold enqueue --spooler /var/spool/app to=joe     store a task
  spoold ls /var/spool/app                           what is there?
  spoold fsck /var/spool/app                         is anything wrong there?
  spoold requeue --reason crashes /var/spool/app     once more, please

Signals: TERM, INT stop gracefully (twice: at once); QUIT stops at once; HUP reloads; USR1 looks for tasks now.
Exit codes: 0 stopped, 1 wrong configuration or start-up error, 3 --drain, and not all of it was done. Commands: 0 done, 1 not all of it, 64 wrong usage, 74 not all printed.`
