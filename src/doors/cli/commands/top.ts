import { SpooldError } from '../../../base/errors.js'
import { printable } from '../../../base/printable.js'
import { realPathOf } from '../../../system/file-stats.js'
import { asOwners, ownerOf } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { type IniOptions, spoolsOf } from '../ini-spools.js'
import { statusAt } from '../status/spool-status.js'
import { checkTerminal } from '../top/terminal.js'
import { Top } from '../top/top.js'

interface TopOptions extends IniOptions {
  readonly control?: string
}

/**
 * `spoold top DIR…`: spools on a whole screen, until q.
 *
 * @throws SpooldError USAGE where there is no screen to draw on
 */
export async function top(
  named: readonly string[],
  { control, ...options }: TopOptions,
  { output, ownProcess, env, screen }: CommandContext,
): Promise<number> {
  output.purpose = 'look'
  const known = control === undefined ? spoolsOf(named, options) : await spoolsAt(control, named, options)
  const spools = [...new Set(known)]
  checkTerminal(env)
  const owners = new Set(spools.map(spool => ownerOf(realPathOf(spool) ?? spool)?.uid))
  if (owners.size > 1)
    throw new SpooldError(
      'USAGE',
      `${spools.map(printable).join(', ')} belong to several users, and top acts as one: name the spools of one user`,
    )
  return asOwners(ownProcess, spools, async mine => {
    await new Top(mine, screen().hasColor, control === undefined ? {} : { sockets: [control] }).run()
    return 0
  })
}

/** The spools of the daemon that listens there. @throws SpooldError USAGE, SPOOL_UNUSABLE if none answers */
async function spoolsAt(control: string, named: readonly string[], { ini }: IniOptions): Promise<string[]> {
  if (named.length > 0 || ini !== undefined)
    throw new SpooldError(
      'USAGE',
      'with --control PATH, the daemon says which spools: name none, and no --ini',
    )
  const statuses = await statusAt(control, false)
  for (const status of statuses)
    if (status.source === 'none')
      throw new SpooldError('SPOOL_UNUSABLE', `no daemon answers at ${printable(control)}: ${status.because}`)
  return statuses.map(({ directory }) => directory)
}
