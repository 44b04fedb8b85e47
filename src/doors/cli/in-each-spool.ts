import { counted } from '../../base/counted.js'
import { doEach } from '../../base/each.js'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { asOwners } from './acting-owner.js'
import type { CommandContext } from './context.js'
import { commandExitCode, EX_USAGE, ofServer } from './exit-code.js'
import { EX_IOERR } from './output.js'
import type { Place } from './places.js'

type Context = Pick<CommandContext, 'output' | 'ownProcess' | 'interruption'>
type Act = (place: Place) => number | Promise<number>

/**
 * Acts in each of these spools, as its owner. A spool that cannot be used is reported, with the reason, and the others follow.
 *
 * @param act its result is the exit code for this spool
 * @param tally for a command that changes something: returns what it says if a signal ends it, given how many spools are done
 * @returns the highest exit code
 */
export async function inEachSpool(
  places: readonly Place[],
  context: Context,
  act: Act,
  tally?: (done: string) => string,
): Promise<number> {
  return asOwners(context.ownProcess, places, mine => inTurn(mine, context, act, tally))
}

/** As `inEachSpool`, but as the user that this process is. */
export async function inTurn(
  places: readonly Place[],
  { output, interruption }: Context,
  act: Act,
  tally?: (done: string) => string,
): Promise<number> {
  let [exitCode, count] = [0, 0]
  if (tally !== undefined) interruption.heed(() => tally(`${count} of ${counted(places.length, 'spool')}`))
  const actNext = async (place: Place) => {
    try {
      if (place.fault !== undefined) throw place.fault
      exitCode = Math.max(exitCode, await act(place))
    } catch (error) {
      const refusal = await refusalOf(error, place)
      output.complain(refusal.text)
      exitCode = Math.max(exitCode, refusal.exitCode)
    }
    count++
    await output.room()
  }
  await doEach(places, actNext, { signal: interruption.signal })
  return exitCode
}

/** Returns the error as text, and the exit code. @throws errors that do not concern this one spool, and bugs of ours */
export async function refusalOf(
  thrown: unknown,
  { shown }: Pick<Place, 'shown'>,
): Promise<{ readonly text: string; readonly exitCode: number }> {
  const error = await ofServer(thrown)
  const exitCode = commandExitCode(error)
  const isOurs = error instanceof SpooldError
  if (isOurs ? exitCode === EX_USAGE || exitCode === EX_IOERR : isBug(error)) throw error
  return { exitCode, text: isOurs ? `[${error.code}] ${error.message}` : `${shown}: ${messageOf(error)}` }
}

function isBug(error: unknown): boolean {
  const isSystems = errnoOf(error) !== undefined
  return !(error instanceof Error) || (!isSystems && error.name !== 'Error')
}
