import { counted } from '../../../base/counted.js'
import { describe, messageOf, SpooldError } from '../../../base/errors.js'
import { hasFields } from '../../../base/json-guard.js'
import { askDaemon } from '../../../engines/control/client.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { findDaemons } from '../daemons.js'
import { inEachSpool } from '../in-each-spool.js'
import { type IniOptions, type Place, spoolsOf } from '../places.js'

interface ScaleOptions extends IniOptions {
  readonly json?: boolean
}

const WISH = /^(?:[+-]?[0-9]+|auto)$/

/**
 * `spoold scale DIR… N|+N|-N|auto`: how many processes the daemons of these spools have for each of them.
 *
 * @returns 1 if a daemon does not answer or obey
 */
export async function scale(
  args: readonly string[],
  options: ScaleOptions,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  const wish = args.at(-1) ?? ''
  if (!WISH.test(wish))
    throw new SpooldError('USAGE', `expected N, +N, -N or auto at the end, got ${describe(wish)}`)
  const scaleOne = async (place: Place) => {
    const { shown: directory, spool } = place
    const { daemons, silent } = await findDaemons([place])
    for (const { because } of silent) output.complain(`${directory}: ${because}`)
    let code = silent.length > 0 ? 1 : 0
    if (daemons.length > 0) await audit(await openTaskStore(spool), { action: `scale ${wish}` }, output)
    for (const { path, facts } of daemons)
      try {
        const answer = await askDaemon(path, 'scale', { spool, to: wish })
        if (options.json === true) output.json({ command: 'scale', spooler: directory, answer })
        else output.line(`${directory}: process ${facts.pid}: ${sizeText(answer)}`)
      } catch (error) {
        code = 1
        output.complain(`${directory}: process ${facts.pid}: ${messageOf(error)}`)
      }
    return code
  }
  const places = spoolsOf(args.slice(0, -1), options, context)
  return inEachSpool(places, context, scaleOne, done => `${done} scaled`)
}

interface Answer {
  readonly wanted: number
  readonly present: number
  readonly size: { readonly algorithm?: unknown; readonly isByHand?: unknown }
}

function isAnswer(answer: unknown): answer is Answer {
  return hasFields(answer, { wanted: 'count', present: 'count', size: 'object' }, {})
}

function sizeText(answer: unknown): string {
  if (!isAnswer(answer)) throw new Error('it answers in another version')
  const { wanted, present, size } = answer
  const by = size.isByHand === true ? 'by hand, until auto' : (size.algorithm ?? 'always')
  return `${counted(wanted, 'process', 'processes')}, ${present} present (${by})`
}
