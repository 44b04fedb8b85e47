import { messageOf } from '../../../base/errors.js'
import { askDaemon } from '../../../engines/control/client.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { asOwners } from '../acting-owner.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { findDaemons } from '../daemons.js'
import { type IniOptions, spoolsOf } from '../ini-spools.js'
import { spoolAt } from '../redis-paths.js'

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
  { output, ownProcess }: CommandContext,
): Promise<number> {
  const last = args.at(-1)
  const isWord = last === 'on' || last === 'off'
  const state = isWord ? last : 'on'
  const directories = spoolsOf(isWord ? args.slice(0, -1) : args, options)
  return asOwners(ownProcess, directories, async spools => {
    const { daemons, silent } = await findDaemons(spools)
    let code = silent.length > 0 ? 1 : 0
    for (const { directory, because } of silent) output.complain(`${directory}: ${because}`)
    for (const { path, directory, facts } of daemons)
      try {
        await audit(await openTaskStore(spoolAt(directory)), { action: VERBS[state] }, output)
        await askDaemon(path, VERBS[state], {})
        output.line(
          options.json === true
            ? JSON.stringify({ command: 'quiet', spooler: directory, pid: facts.pid, quiet: state === 'on' })
            : `${directory}: process ${facts.pid} ${state === 'on' ? 'is quiet: it starts nothing more' : 'is not quiet'}`,
        )
      } catch (error) {
        code = 1
        output.complain(`${directory}: process ${facts.pid}: ${messageOf(error)}`)
      }
    return code
  })
}
