import { ageOf } from '../../../admin/operate/selection.js'
import { SpooldError } from '../../../base/errors.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import type { PurgeLimits } from '../../../engines/upkeep.js'
import { asOwners } from '../acting-owner.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { type IniOptions, spoolsOf } from '../ini-spools.js'
import type { Output } from '../output.js'
import { Progress } from '../progress.js'
import { parseTaskPath } from '../task-paths.js'

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
  { output, ownProcess }: CommandContext,
): Promise<number> {
  output.purpose = options.dryRun === true ? 'look' : 'change'
  const limits = limitsOf(options)
  return asOwners(ownProcess, spoolsOf(named, options), mine => purgeAll(mine, limits, options, output))
}

async function purgeAll(
  directories: readonly string[],
  limits: PurgeLimits,
  { dryRun = false, json = false }: PurgeOptions,
  output: Output,
): Promise<number> {
  let code = 0
  const progress = new Progress(output, 'dead letters')
  for (const directory of directories) {
    const { spool, ref } = parseTaskPath(directory)
    if (ref !== undefined)
      throw new SpooldError(
        'USAGE',
        `expected a spool directory, got ${directory}; to remove a file: spoold rm`,
      )
    const store = await openTaskStore(spool)
    if (!dryRun && progress.isShown) progress.expect(await store.countPurgeable(limits))
    if (!dryRun) await audit(store, { action: 'purge', filter: JSON.stringify(limits) }, output)
    const { removed: purged, fault } = dryRun
      ? { removed: await store.countPurgeable(limits), fault: undefined }
      : await store.purge(limits, () => progress.step())
    const letters = `${purged} dead letter${purged === 1 ? '' : 's'}`
    if (json) output.line(JSON.stringify({ command: 'purge', spooler: directory, purged, dryRun }))
    else output.line(`${directory}: ${dryRun ? `would remove ${letters}` : `removed ${letters}`}`)
    if (fault !== undefined) {
      code = 1
      output.complain(`${directory}: not all could be removed: ${fault}`)
    }
  }
  return code
}

/** @throws SpooldError USAGE */
function limitsOf({ maxAge, maxCount, all = false }: PurgeOptions): PurgeLimits {
  if ((maxAge === undefined && maxCount === undefined) === !all)
    throw new SpooldError('USAGE', 'say which dead letters: --max-age TIME, --max-count N or both, or --all')
  if (all) return { maxAgeMs: null, maxCount: 0 }
  if (maxCount !== undefined && !/^[0-9]{1,15}$/.test(maxCount))
    throw new SpooldError('USAGE', `--max-count: expected a whole number, got ${JSON.stringify(maxCount)}`)
  return {
    maxAgeMs: maxAge === undefined ? null : ageOf('--max-age', maxAge),
    maxCount: maxCount === undefined ? null : Number(maxCount),
  }
}
