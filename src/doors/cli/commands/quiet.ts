import { counted } from '../../../base/counted.js'
import { doEach } from '../../../base/each.js'
import { messageOf } from '../../../base/errors.js'
import { askDaemon } from '../../../engines/control/client.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { asOwners } from '../acting-owner.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { findDaemons, type LiveDaemon } from '../daemons.js'
import { type IniOptions, spoolsOf } from '../places.js'

interface QuietOptions extends IniOptions {
  readonly json?: boolean
}

const VERBS = { on: 'quiet', off: 'unquiet' } as const

/**
 * `spoold quiet DIR… [on|off]`: every daemon of these spools starts nothing more, or goes on, in all of its spools.
 *
 * @returns 1 if a daemon does not answer or obey
 */
export async function quiet(
  args: readonly string[],
  options: QuietOptions,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess, interruption } = context
  const last = args.at(-1)
  const isWord = last === 'on' || last === 'off'
  const state = isWord ? last : 'on'
  const spools = spoolsOf(isWord ? args.slice(0, -1) : args, options, context)
  return asOwners(ownProcess, spools, async mine => {
    const { daemons, silent } = await findDaemons(mine)
    let code = silent.length > 0 ? 1 : 0
    let count = 0
    for (const { place, because } of silent) output.complain(`${place.shown}: ${because}`)
    const tell = async ({ path, place: { shown: directory, spool }, facts }: LiveDaemon) => {
      try {
        await audit(await openTaskStore(spool), { action: VERBS[state] }, output)
        await askDaemon(path, VERBS[state], {})
        const what = state === 'on' ? 'is quiet: it starts nothing more' : 'is not quiet'
        if (options.json === true)
          output.json({ command: 'quiet', spooler: directory, pid: facts.pid, quiet: state === 'on' })
        else output.line(`${directory}: process ${facts.pid} ${what}`)
        count++
      } catch (error) {
        code = 1
        output.complain(`${directory}: process ${facts.pid}: ${messageOf(error)}`)
      }
    }
    interruption.heed(() => `${count} of ${counted(daemons.length, 'daemon')} told`)
    await doEach(daemons, tell, { signal: interruption.signal })
    return code
  })
}
