import { SpooldError } from '../../../base/errors.js'
import type { Command } from '../command.js'
import { completionFor, SHELLS } from '../completion.js'
import type { CommandContext } from '../context.js'

/** `spoold completion SHELL`: prints a completion script for these commands. */
export function completionOf(commands: readonly Command[]) {
  return ([name = '']: readonly string[], _options: object, { output }: CommandContext): number => {
    output.purpose = 'look'
    const shell = SHELLS.find(each => each === name)
    if (shell === undefined)
      throw new SpooldError('USAGE', `expected one of ${SHELLS.join(', ')}, got ${JSON.stringify(name)}`)
    output.page(completionFor(shell, commands))
    return 0
  }
}
