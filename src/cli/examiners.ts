import type { Command } from 'commander'
import type { FsckOptions } from './commands/fsck.js'

/** The commands that look for what is wrong. */
export function addExaminers(program: Command, done: (exitCode: number) => void): void {
  program
    .command('fsck')
    .description('find what is wrong in spool directories, and mend it; exit 1 if something is left')
    .argument('[dir...]', 'spool directories; none: those of --ini')
    .option('--repair', 'mend what is found; no task is removed that did not run')
    .option('--ini <file>', 'the configuration by which the daemon runs them')
    .option('--json', 'one JSON object a line')
    .action(async (directories: string[], options: FsckOptions) => {
      const { fsck } = await import('./commands/fsck.js')
      done(await fsck(directories, options))
    })
}
