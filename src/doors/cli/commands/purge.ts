import { countArg } from '../../../admin/operate/args.js'
import { ageOf } from '../../../admin/operate/selection.js'
import { counted } from '../../../base/counted.js'
import { SpooldError } from '../../../base/errors.js'
import type { PurgeLimits } from '../../../engines/contracts/upkeep.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { inEachSpool } from '../in-each-spool.js'
import { type IniOptions, type Place, spoolsOf } from '../places.js'
import { Progress } from '../progress.js'
import { countText } from '../render.js'

interface PurgeOptions extends IniOptions {
  readonly maxAge?: string
  readonly maxCount?: string
  readonly all?: boolean
  readonly dryRun?: boolean
  readonly json?: boolean
}

/** `spoold purge DIR…`: removes dead letters for good, and prints how many. */
export async function purge(
  named: readonly string[],
  options: PurgeOptions,
  context: CommandContext,
): Promise<number> {
  const { output, interruption } = context
  const { dryRun = false, json = false } = options
  output.purpose = dryRun ? 'look' : 'change'
  const limits = limitsOf(options)
  const places = await spoolsOf(named, options, context)
  const progress = new Progress(output, 'dead letter')
  let [expected, removed] = [0, 0]
  const tally = () => `${countText(removed)} of ${countText(expected)} removed`
  const purgeOne = async ({ shown: directory, spool }: Place) => {
    const store = await openTaskStore(spool)
    const count = await store.countPurgeable(limits)
    const say = (purged: number) => {
      const letters = counted(purged, 'dead letter')
      if (json) output.json({ command: 'purge', spooler: directory, purged, dryRun })
      else output.line(`${directory}: ${dryRun ? `would remove ${letters}` : `removed ${letters}`}`)
    }
    if (dryRun) {
      say(count)
      return 0
    }
    expected += count
    progress.expect(count)
    await audit(store, { action: 'purge', filter: JSON.stringify(limits) }, output)
    const { removed: purged, fault } = await store.purge(
      limits,
      () => {
        removed++
        progress.step()
      },
      interruption.signal,
    )
    say(purged)
    if (fault === undefined) return 0
    output.complain(`${directory}: not all could be removed: ${fault}`)
    return 1
  }
  return inEachSpool(places, context, purgeOne, dryRun ? undefined : tally)
}

/** @throws SpooldError USAGE */
function limitsOf({ maxAge, maxCount, all = false }: PurgeOptions): PurgeLimits {
  if ((maxAge === undefined && maxCount === undefined) === !all)
    throw new SpooldError('USAGE', 'say which dead letters: --max-age TIME, --max-count N or both, or --all')
  if (all) return { maxAgeMs: null, maxCount: 0 }
  return {
    maxAgeMs: maxAge === undefined ? null : ageOf('--max-age', maxAge),
    maxCount: maxCount === undefined ? null : countArg('--max-count', maxCount),
  }
}
