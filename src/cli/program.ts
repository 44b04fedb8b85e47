import { Command, CommanderError, Option } from 'commander'
import type { Sources } from '../config/read-config.js'
import type { Setting } from '../config/setting.js'
import { check } from './commands/check.js'
import { type EnqueueOptions, enqueue } from './commands/enqueue.js'
import { type LsOptions, ls } from './commands/ls.js'
import { BACKGROUND_FLAG, run } from './commands/run.js'
import { type ShowOptions, show } from './commands/show.js'
import { addOptionFlags, completeAbbreviations } from './option-flags.js'
import { readVersion } from './version.js'

const TAKES_NO_CONFIGURATION = new Set(['ls', 'show', 'enqueue'])

/** Runs one command line. @returns the exit code */
export async function main(argv: readonly string[]): Promise<number> {
  const args = TAKES_NO_CONFIGURATION.has(argv[0] ?? '') ? argv : completeAbbreviations(argv)
  let exitCode: Promise<number> | number = 0
  const program = createProgram(args, code => {
    exitCode = code
  })
  try {
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode // commander has said it already
    throw error
  }
  return exitCode
}

function createProgram(argv: readonly string[], done: (exitCode: Promise<number> | number) => void): Command {
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
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'spoold: ')) })
    .argument('[files...]', 'ini files, each as FILE or FILE:SECTION')
    .usage('[app.ini] [--option value…]')
    .addOption(new Option(BACKGROUND_FLAG).hideHelp())
    .addHelpText('after', EXAMPLES)
    .action((files: string[], { inBackground }) => done(run(sources(files), inBackground === true)))
  addOptionFlags(program, settings, argv)

  const checker = program
    .command('check')
    .description(
      'print every error and warning of a configuration, with file:line; exit 1 if there is an error',
    )
    .argument('[files...]', 'as for running')
    .action((files: string[]) => done(check(sources(files))))
  addOptionFlags(checker, settings, argv)

  program
    .command('ls')
    .description('list the tasks of spool directories, in the order in which they run')
    .argument('<dir...>')
    .option('--json', 'one JSON object a line')
    .action((directories: string[], options: LsOptions) => done(ls(directories, options)))

  program
    .command('show')
    .description('decode a spool file')
    .argument('<file>')
    .option('--json', 'as JSON, bytes that are not UTF-8 as base64')
    .action((file: string, options: ShowOptions) => done(show(file, options)))

  program
    .command('enqueue')
    .description('store a task and print its path')
    .argument('[key=value...]')
    .requiredOption('--spooler <dir>', 'the spool directory')
    .option('--at <time>', 'not before: epoch seconds, or a date')
    .option('--priority <n>', 'the priority directory; needs spooler-ordered')
    .option('--body <file>', 'the body; - is standard input')
    .action((pairs: string[], options: EnqueueOptions) => done(enqueue(pairs, options)))

  return program
}

const EXAMPLES = `
Examples:
  spoold app.ini                                     run
  spoold --spooler /var/spool/app --spooler-import handler.js
  spoold check app.ini                               is it right?
  spoold enqueue --spooler /var/spool/app to=joe     store a task
  spoold ls /var/spool/app                           what is there?

Signals: TERM, INT stop gracefully (twice: at once); QUIT stops at once; HUP reloads; USR1 looks for tasks now.
Exit codes: 0 stopped, 1 wrong configuration or start-up error.`
