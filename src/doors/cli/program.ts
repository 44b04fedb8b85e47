import { existsSync } from 'node:fs'
import { Command, CommanderError, Help, Option } from 'commander'
import { errnoOf, SpooldError, toError } from '../../base/errors.js'
import { nearestOf } from '../../formats/config/suggestion.js'
import type { Setting } from '../../formats/ini/setting.js'
import { obeyEarlySignals } from '../daemon/signals.js'
import { refuseChangedBytes, refuseChangedDirectory } from './argument-bytes.js'
import type { Command as CommandRow } from './command.js'
import { COMMANDS } from './command-table.js'
import { type CommandContext, sourcesOf } from './context.js'
import { commandExitCode, ofServer } from './exit-code.js'
import { Interruption } from './interruption.js'
import type { Io } from './io.js'
import { addOptionFlags, BACKGROUND_FLAG, completeAbbreviations, UNDER_ROOT_FLAG } from './option-flags.js'
import { Output, ReaderGone } from './output.js'
import { readVersion } from './version.js'
import { whenAnswered } from './when-answered.js'

/** How many spools a command holds open, however many it is for; above what any command uses at the same time. */
const SPOOLS_HELD = 32
const WRONG_USAGE = new SpooldError('USAGE', 'the command line is wrong')
const NAMES = ['help', ...COMMANDS.map(({ name }) => name)]

/** Runs one command line. @returns the exit code */
export async function main(given: readonly string[], io: Io): Promise<number> {
  // in uWSGI, -v is max-vars and needs a value; on its own it can only mean --version
  const argv = given.length === 1 && given[0] === '-v' ? ['--version'] : given
  const [word = ''] = argv
  const isCommand = NAMES.includes(word)
  // getopt_long(3)'s rules apply only to commands that accept uWSGI's options
  const isStrict = isCommand && COMMANDS.find(({ name }) => name === word)?.takesConfiguration !== true
  const output = new Output(io)
  const interruption = new Interruption(io.signals, output)
  if (isCommand) {
    io.signals.take()
    obeyEarlySignals()
  }
  let exitCode = 0
  try {
    refuseChangedBytes(argv)
    refuseChangedDirectory()
    refuseMistyped(word, NAMES)
    if (word === 'help') refuseUnknownTopic(argv[1], NAMES)
    const args = isStrict ? argv : completeAbbreviations(argv)
    const commandLine: Setting[] = []
    const program = createProgram(args, { ...io, output, interruption, commandLine }, commandLine, code => {
      exitCode = code
    })
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    exitCode = exitCodeOf(error instanceof CommanderError ? error : await ofServer(error), isStrict, output)
  }
  return interruption.ended(exitCode)
}

function exitCodeOf(error: unknown, isStrict: boolean, output: Output): number {
  if (error instanceof ReaderGone) return 0
  if (error instanceof CommanderError)
    return error.exitCode === 0 ? 0 : isStrict ? commandExitCode(WRONG_USAGE) : 1
  const named = withCode(error)
  complainOf(named, output)
  return isStrict || isOfCommandLine(named) ? commandExitCode(named) : 1
}

/** Errors of the command line itself, whose exit codes are the same for all commands. */
function isOfCommandLine(error: unknown): boolean {
  return error instanceof SpooldError && (error.code === 'USAGE' || error.code === 'OUTPUT_FAILED')
}

function createProgram(
  argv: readonly string[],
  context: CommandContext,
  settings: Setting[],
  done: (exitCode: number) => void,
): Command {
  const { output } = context
  const program = new Command('spoold')
    .description('Runs background tasks from plain files: a drop-in uWSGI spooler.')
    .version(readVersion(), '--version')
    .enablePositionalOptions()
    .exitOverride()
    .configureHelp(HELP_LAYOUT)
    .configureOutput({
      getOutHelpWidth: () => context.screen().columns ?? 80,
      writeOut(text) {
        output.purpose = 'look'
        output.page(text)
      },
      writeErr: text => output.complainAtLength(text),
      outputError: text => output.complain(usageError(text, argv)),
    })
    .helpCommand('help [command]', 'display help for a command')
    .argument('[files...]', 'ini files, each as FILE or FILE:SECTION')
    .usage('[app.ini] [--option value…]')
    .addOption(new Option(`${BACKGROUND_FLAG} <sockets>`).hideHelp())
    .addOption(new Option(`${UNDER_ROOT_FLAG} <sockets>`).hideHelp())
    .addHelpText('after', EXAMPLES)
    .action(async (files: string[], { inBackground, underRoot }) => {
      const { run } = await import('./commands/run.js')
      const sockets = (count: string | undefined) => (count === undefined ? undefined : Number(count))
      const print = (text: string) => {
        output.purpose = 'look'
        output.page(text)
      }
      const options = { backgroundSockets: sockets(inBackground), parentsSockets: sockets(underRoot), print }
      done(await run(sourcesOf(files, context), options, output))
    })
  const [word = ''] = argv
  if (!NAMES.includes(word) || word === 'help') addOptionFlags(program, settings, argv)
  for (const row of COMMANDS) {
    const command = addCommand(program, row).action(
      async (args: string | string[], options: { readonly as?: string }) => {
        const words = [args].flat()
        const { as, ...own } = options
        if (as !== undefined) await (await import('./acting-owner.js')).actAs(as, context.ownProcess)
        const act = await row.load()
        const values: readonly unknown[] = Object.values(own).flat()
        await whenAnswered([...words, ...values.filter(value => typeof value === 'string')], output)
        const { holdStates } = await import('../../engines/spool/state-directory.js')
        holdStates(SPOOLS_HELD)
        done(await act(words, own, context))
      },
    )
    if (row.takesConfiguration === true && [row.name, 'help'].includes(word))
      addOptionFlags(command, settings, argv)
  }
  return program
}

function addCommand(program: Command, { name, summary, args, argsHelp, flags }: CommandRow): Command {
  const command = program.command(name).description(summary).argument(args, argsHelp)
  for (const [names, help, kind] of flags) {
    const option = new Option(names, help).makeOptionMandatory(kind === 'required')
    if (kind === 'repeatable')
      option.argParser((text: string, before: readonly string[] = []) => [...before, text])
    command.addOption(option)
  }
  return command
}

/** An operating system error needs no stack trace: it is not a bug of ours. */
function withCode(thrown: unknown): unknown {
  if (thrown instanceof SpooldError || errnoOf(thrown) === undefined) return thrown
  if (!(thrown instanceof Error) || !('syscall' in thrown)) return thrown
  const text =
    thrown.syscall === 'uv_cwd'
      ? errnoOf(thrown) === 'ERANGE'
        ? `the path of the current directory is too long: cd to another one (${thrown.message})`
        : `the current directory is gone, or closed to uid ${process.geteuid?.()}: cd to another one (${thrown.message})`
      : `uid ${process.geteuid?.()} is refused: ${thrown.message}`
  return new SpooldError('SYSTEM_REFUSED', text, { cause: thrown })
}

/** Lists of faults, and what interpreters and handlers say. */
const LONG: ReadonlySet<string> = new Set(['CONFIG_INVALID', 'HANDLER_UNLOADABLE', 'START_FAILED'])

/** A sentence for errors that users can fix, with their code in docs/errors.md; a stack trace for all others. */
function complainOf(thrown: unknown, output: Output): void {
  const error = toError(thrown)
  if (!(error instanceof SpooldError)) return output.complainAtLength(error.stack ?? error.message)
  const text = `[${error.code}] ${error.message}`
  if (LONG.has(error.code)) output.complainAtLength(text)
  else output.complain(text)
}

/** commander's message as one sentence, with a hint at the help. */
function usageError(text: string, [command = '']: readonly string[]): string {
  const said = text
    .replace(/^error: /, '')
    .replace(/^option '(?:-\w, )?(--\S+) (<\S+>)' argument missing/, '$1: expected $2, got nothing')
    .trim()
    .replace(/\.$/, '')
    .replaceAll('\n', ' ')
  const help = NAMES.includes(command) ? `spoold ${command} --help` : 'spoold --help'
  return `${said}; see ${help}`
}

const EXAMPLES = `
Examples:
  spoold app.ini                                     run
  spoold --spooler /var/spool/app --spooler-import handler.js
  spoold check app.ini                               is it right?
  spoold doctor app.ini                              is the machine ready?
  spoold enqueue --spooler /var/spool/app to=joe     store a task
  spoold ls /var/spool/app                           what is there?
  spoold fsck /var/spool/app                         is anything wrong there?
  spoold requeue --reason crashes /var/spool/app     once more, please

Signals: TERM, INT stop gracefully (twice: at once); QUIT stops at once; HUP
reloads; USR1 looks for tasks now.
Exit codes: 0 stopped, 1 wrong configuration or start-up error, 3 --drain, and
not all of it was done. Commands: 0 done, 1 not all of it, 64 wrong usage, 74
not all printed.`

/** A longer term has a line of its own, so that its help is not squeezed into the rest of the line. */
const MAX_TERM_COLUMNS = 26
const INDENT = '  '

/** Lays help out for 80 columns: commander itself does not wrap beside its longest flag. */
const HELP_LAYOUT = {
  padWidth(...[command, helper]: Parameters<Help['padWidth']>): number {
    return Math.min(MAX_TERM_COLUMNS, Help.prototype.padWidth.call(helper, command, helper))
  },
  formatItem(...[term, termWidth, description, helper]: Parameters<Help['formatItem']>): string {
    if (description === '') return INDENT + term
    const before = INDENT + ' '.repeat(termWidth) + INDENT
    const wrapped = helper.boxWrap(description, (helper.helpWidth ?? 80) - before.length)
    const text = wrapped.replaceAll('\n', `\n${before}`)
    const isLong = helper.displayWidth(term) > termWidth
    return isLong
      ? `${INDENT}${term}\n${before}${text}`
      : `${INDENT}${term.padEnd(termWidth)}${INDENT}${text}`
  },
}

/** Commands that people try because other programs have them. */
const ADVICE: Readonly<Record<string, string>> = {
  start: 'spoold app.ini runs the daemon, in the background with daemonize = LOGFILE',
  run: 'spoold app.ini runs the daemon',
  stop: 'send SIGTERM to the daemon: kill $(cat PIDFILE), or systemctl stop',
  restart: 'SIGHUP reloads the daemon: kill -HUP $(cat PIDFILE), or systemctl reload',
  reload: 'send SIGHUP to the daemon: kill -HUP $(cat PIDFILE), or systemctl reload',
  list: 'spoold ls DIR lists the tasks',
  version: 'spoold --version prints it',
  drain: 'spoold --drain app.ini runs what is due',
  retry: 'spoold requeue puts dead letters back, spoold kick runs waiting tasks now',
  delete: 'spoold rm removes tasks',
  add: 'spoold enqueue stores tasks',
}

/**
 * Refuses a first word that would be taken for an ini file. If there is no such file, and the word does not look like a
 * file name, the user meant a command.
 *
 * @throws SpooldError USAGE
 */
function refuseMistyped(word: string, commands: readonly string[]): void {
  if (!/^[a-z][a-z-]*$/i.test(word) || commands.includes(word) || existsSync(word)) return
  throw new SpooldError('USAGE', `${word}: no such file, and no command; ${hintFor(word, commands)}`)
}

/** @param topic of `spoold help` @throws SpooldError USAGE */
function refuseUnknownTopic(topic: string | undefined, commands: readonly string[]): void {
  if (topic === undefined || topic.startsWith('-') || commands.includes(topic)) return
  throw new SpooldError('USAGE', `${topic}: no such command; ${hintFor(topic, commands)}`)
}

function hintFor(word: string, commands: readonly string[]): string {
  const nearest = nearestOf(word.toLowerCase(), commands)
  if (Object.hasOwn(ADVICE, word)) return ADVICE[word] ?? ''
  return nearest === undefined ? 'see spoold --help' : `did you mean ${nearest}?`
}
