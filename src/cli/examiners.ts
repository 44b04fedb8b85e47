import type { Command } from 'commander'
import type { Sources } from '../ini/read-config.js'
import type { DoctorOptions } from './commands/doctor.js'
import type { FsckOptions } from './commands/fsck.js'

/** The commands that look for what is wrong. */
export function addExaminers(
  program: Command,
  sources: (files: readonly string[]) => Sources,
  done: (exitCode: number) => void,
): void {
  program
    .command('fsck')
    .description('find damage in spool directories, and repair it on request; exit 1 if something is left')
    .argument('[dir...]', 'spool directories; none: those of --ini')
    .option('--repair', 'repair what is found; never removes a task that has not run')
    .option('--ini <file>', 'the configuration by which the daemon runs them')
    .option('--json', 'one JSON object per line')
    .action(async (directories: string[], options: FsckOptions) => {
      const { fsck } = await import('./commands/fsck.js')
      done(await fsck(directories, options))
    })

  program
    .command('doctor')
    .description('examine a whole installation as the user that will run it; exit 1 if there is an error')
    .argument('<files...>', 'ini files, each as FILE or FILE:SECTION')
    .option('--json', 'one JSON object per line')
    .action(async (files: string[], options: DoctorOptions) => {
      const { doctor } = await import('./commands/doctor.js')
      done(await doctor(sources(files), options))
    })
}
