import { WISH } from '../../../admin/operate/spool-actions.js'
import { counted } from '../../../base/counted.js'
import { doEach } from '../../../base/each.js'
import { describe, messageOf, SpooldError } from '../../../base/errors.js'
import { hasFields } from '../../../base/json-guard.js'
import { sendSignal } from '../../../engines/client/send-signal.js'
import { askDaemon } from '../../../engines/control/client.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { asOwners } from '../acting-owner.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { type FoundDaemons, findDaemons, type LiveDaemon } from '../daemons.js'
import { inEachSpool } from '../in-each-spool.js'
import type { Output } from '../output.js'
import { type IniOptions, type Place, readIni, spoolsOf } from '../places.js'

interface DaemonOptions extends IniOptions {
  readonly json?: boolean
}

/** Complains about spools whose daemons do not answer. @returns the exit code for them */
function complainOf(silent: FoundDaemons['silent'], output: Output): number {
  for (const { place, because } of silent) output.complain(`${place.shown}: ${because}`)
  return silent.length > 0 ? 1 : 0
}

/** Gives an order to one daemon; if the daemon does not obey, says why. @returns the exit code for it */
async function codeOf(
  daemon: LiveDaemon,
  output: Output,
  tell: (daemon: LiveDaemon) => Promise<void>,
): Promise<number> {
  try {
    await tell(daemon)
    return 0
  } catch (error) {
    output.complain(`${daemon.place.shown}: process ${daemon.facts.pid}: ${messageOf(error)}`)
    return 1
  }
}

const VERBS = { on: 'quiet', off: 'unquiet' } as const

/**
 * `spoold quiet DIR… [on|off]`: makes every daemon of these spools start nothing more, or go on, in all spools of that daemon.
 *
 * @returns 1 if a daemon does not answer or obey
 */
export async function quiet(
  args: readonly string[],
  options: DaemonOptions,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess, interruption } = context
  const last = args.at(-1)
  const isWord = last === 'on' || last === 'off'
  const state = isWord ? last : 'on'
  const spools = await spoolsOf(isWord ? args.slice(0, -1) : args, options, context)
  return asOwners(ownProcess, spools, async mine => {
    const { daemons, silent } = await findDaemons(mine)
    let code = complainOf(silent, output)
    let count = 0
    const tell = async ({ path, place: { shown: directory, spool }, facts: { pid } }: LiveDaemon) => {
      await audit(await openTaskStore(spool), { action: VERBS[state] }, output)
      await askDaemon(path, VERBS[state], {})
      const what = state === 'on' ? 'is quiet: it starts nothing more' : 'is not quiet'
      if (options.json === true)
        output.json({ command: 'quiet', spooler: directory, pid, quiet: state === 'on' })
      else output.line(`${directory}: process ${pid} ${what}`)
      count++
    }
    interruption.heed(() => `${count} of ${counted(daemons.length, 'daemon')} told`)
    const tellNext = async (daemon: LiveDaemon) => {
      code = Math.max(code, await codeOf(daemon, output, tell))
    }
    await doEach(daemons, tellNext, { signal: interruption.signal })
    return code
  })
}

/**
 * `spoold scale DIR… N|+N|-N|auto`: sets how many processes the daemons of these spools have for each of them.
 *
 * @returns 1 if a daemon does not answer or obey
 */
export async function scale(
  args: readonly string[],
  options: DaemonOptions,
  context: CommandContext,
): Promise<number> {
  const { output } = context
  const wish = args.at(-1) ?? ''
  if (!WISH.test(wish))
    throw new SpooldError('USAGE', `expected N, +N, -N or auto at the end, got ${describe(wish)}`)
  const scaleOne = async (place: Place) => {
    const { shown: directory, spool } = place
    const { daemons, silent } = await findDaemons([place])
    let code = complainOf(silent, output)
    if (daemons.length > 0) await audit(await openTaskStore(spool), { action: `scale ${wish}` }, output)
    const tell = async ({ path, facts: { pid } }: LiveDaemon) => {
      const answer = await askDaemon(path, 'scale', { spool, to: wish })
      if (options.json === true) output.json({ command: 'scale', spooler: directory, answer })
      else output.line(`${directory}: process ${pid}: ${sizeText(answer)}`)
    }
    for (const daemon of daemons) code = Math.max(code, await codeOf(daemon, output, tell))
    return code
  }
  const places = await spoolsOf(args.slice(0, -1), options, context)
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

interface SignalOptions {
  readonly socket?: string
  readonly ini?: string
}

/** `spoold signal`: raises a uWSGI signal in a daemon, through its socket. @returns the exit code */
export async function signal(
  [number = '']: readonly string[],
  { socket, ini }: SignalOptions,
  context: CommandContext,
): Promise<number> {
  if (!/^\d{1,3}$/.test(number))
    throw new SpooldError('USAGE', `expected a signal number from 0 to 255, got ${describe(number)}`)
  if ((socket === undefined) === (ini === undefined))
    throw new SpooldError('USAGE', 'say where: --socket ADDRESS or --ini FILE')
  const [first = ''] = ini === undefined ? [] : (await readIni(ini, context, 'socket')).options.socket
  await sendSignal(Number(number), { socket: socket ?? first })
  return 0
}
