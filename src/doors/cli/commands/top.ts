import { SpooldError } from '../../../base/errors.js'
import { asOwners, ownerOf } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { type IniOptions, type Place, spoolsOf } from '../places.js'
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
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess, env, screen } = context
  output.purpose = 'look'
  const places =
    control === undefined ? spoolsOf(named, options, context) : await spoolsAt(control, named, options)
  checkTerminal(env)
  const owners = new Set(places.map(({ spool }) => ownerOf(spool)?.uid))
  if (owners.size > 1)
    throw new SpooldError(
      'USAGE',
      `${places.map(({ shown }) => shown).join(', ')} belong to several users, and top acts as one: name the spools of one user`,
    )
  return asOwners(ownProcess, places, async mine => {
    const spools = mine.map(({ shown }) => shown)
    await new Top(spools, screen().hasColor, control === undefined ? {} : { sockets: [control] }).run()
    return 0
  })
}

/** The spools of the daemon that listens there. @throws SpooldError USAGE, SPOOL_UNUSABLE if none answers */
async function spoolsAt(control: string, named: readonly string[], { ini }: IniOptions): Promise<Place[]> {
  if (named.length > 0 || ini !== undefined)
    throw new SpooldError(
      'USAGE',
      'with --control PATH, the daemon says which spools: name none, and no --ini',
    )
  const statuses = await statusAt(control, false)
  for (const status of statuses)
    if (status.source === 'none')
      throw new SpooldError('SPOOL_UNUSABLE', `no daemon answers at ${control}: ${status.because}`)
  return statuses.map(({ directory: spool }) => ({ shown: spool, spool }))
}
