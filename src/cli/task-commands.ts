import type { Command } from 'commander'
import type { ChangeOptions } from './commands/change.js'
import type { LsOptions } from './commands/ls.js'
import type { PurgeOptions } from './commands/purge.js'
import type { ShowOptions } from './commands/show.js'

type Done = (exitCode: number) => void

/** The commands that look at the tasks of a spool, and change them: docs/commands.md. */
export const TASK_COMMANDS = ['ls', 'show', 'rm', 'requeue', 'kick', 'hold', 'release', 'move', 'purge']

/** Each is loaded when it is called. */
export function addTaskCommands(program: Command, done: Done): void {
  addFilters(program.command('ls').description('list the tasks of spool directories, the dead letters last'))
    .argument('<dir...>')
    .option('--json', 'one JSON object per line')
    .action(async (directories: string[], options: LsOptions) => {
      const { ls } = await import('./commands/ls.js')
      done(await ls(directories, options))
    })

  program
    .command('show')
    .description('tell all about a task or a dead letter: its packet, its failures, who runs it')
    .argument('<file...>')
    .option('--json', 'as JSON, bytes that are not UTF-8 as base64')
    .action(async (files: string[], options: ShowOptions) => {
      const { show } = await import('./commands/show.js')
      done(await show(files, options))
    })

  addChange(program, 'rm', 'remove tasks, or dead letters with --state dead').action(
    async (paths: string[], options: ChangeOptions) => done(await (await load()).rm(paths, options)),
  )
  addChange(program, 'requeue', 'put dead letters back into their spool, due at once')
    .option('--keep-attempts', 'count on from their attempts instead of from 0')
    .action(async (paths: string[], options: ChangeOptions) =>
      done(await (await load()).requeue(paths, options)),
    )
  addChange(program, 'kick', 'run tasks now, whatever they wait for').action(
    async (paths: string[], options: ChangeOptions) => done(await (await load()).kick(paths, options)),
  )
  addChange(program, 'hold', 'keep tasks from being run, by a plain uWSGI too').action(
    async (paths: string[], options: ChangeOptions) => done(await (await load()).hold(paths, options)),
  )
  addChange(program, 'release', 'let held tasks run when they would have').action(
    async (paths: string[], options: ChangeOptions) => done(await (await load()).release(paths, options)),
  )
  addChange(program, 'move', 'move tasks to another spool, with their time and their failures')
    .requiredOption('--to <dir>', 'the other spool')
    .action(async (paths: string[], options: ChangeOptions & { to: string }) =>
      done(await (await load()).move(paths, options)),
    )

  program
    .command('purge')
    .description('remove dead letters for good')
    .argument('<dir...>')
    .option('--max-age <time>', 'those that are older: 90m, 2h, 30d')
    .option('--max-count <n>', 'keep at most this many, removing the oldest')
    .option('--all', 'all of them')
    .option('--dry-run', 'only say how many')
    .option('--json', 'one JSON object for each directory')
    .action(async (directories: string[], options: PurgeOptions) => {
      const { purge } = await import('./commands/purge.js')
      done(await purge(directories, options))
    })
}

const load = () => import('./commands/tasks.js')

function addChange(program: Command, name: string, description: string): Command {
  return addFilters(program.command(name).description(description))
    .argument('<path...>', 'files, as ls names them; or spool directories, with filters or --all')
    .option('--all', 'all tasks of a spool that the command is for')
    .option('--dry-run', 'only say what would be done')
    .option('--quiet', 'say only what could not be done')
    .option('--json', 'one JSON object for each task')
}

function addFilters(command: Command): Command {
  const collect = (text: string, before: readonly string[] = []) => [...before, text]
  return command
    .option('--state <states>', 'due,waiting,retrying,held,running,incomplete,malformed,unreadable,dead')
    .option('--older-than <time>', 'that came, or were buried, longer ago: 90m, 2h, 7d')
    .option('--newer-than <time>', 'that came, or were buried, since')
    .option('--priority <n>', 'in this priority directory')
    .option('--key <key=value>', 'with this pair in the packet; may be given several times', collect)
    .option('--name <glob>', "whose file name fits, such as 'uwsgi_spoolfile_on_web1_*'")
    .option('--reason <reason>', 'dead letters of this reason, such as crashes')
}
