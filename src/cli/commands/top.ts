import { SpooldError } from '../../base/errors.js'
import { printable } from '../../base/printable.js'
import { realPathOf } from '../../system/file-stats.js'
import { asOwners, ownerOf } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { type IniOptions, spoolsOf } from '../ini-spools.js'
import { checkTerminal } from '../top/terminal.js'
import { Top } from '../top/top.js'

/**
 * `spoold top DIR…`: spools on a whole screen, until q.
 *
 * @throws SpooldError USAGE where there is no screen to draw on
 */
export async function top(
  named: readonly string[],
  options: IniOptions,
  { output, ownProcess, env, screen }: CommandContext,
): Promise<number> {
  output.purpose = 'look'
  const spools = [...new Set(spoolsOf(named, options))]
  checkTerminal(env)
  const owners = new Set(spools.map(spool => ownerOf(realPathOf(spool) ?? spool)?.uid))
  if (owners.size > 1)
    throw new SpooldError(
      'USAGE',
      `${spools.map(printable).join(', ')} belong to several users, and top acts as one: name the spools of one user`,
    )
  return asOwners(ownProcess, spools, async mine => {
    await new Top(mine, screen().hasColor).run()
    return 0
  })
}
