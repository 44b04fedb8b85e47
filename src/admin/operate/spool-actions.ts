import { messageOf } from '../../base/errors.js'
import { hasFields } from '../../base/json-guard.js'
import { describePair, describePauses, type PausedPair } from '../../base/task/pause.js'
import { askDaemon } from '../../engines/control/client.js'
import { daemonSocketsOf, openTaskStore } from '../../engines/open-engine.js'
import { type Args, given, givenTime, wrongArg } from './args.js'
import { pairOf } from './selection.js'

const WISH = /^(?:[+-]?[0-9]{1,6}|auto)$/

/** Starts no more tasks, or none with a pair, until a time or `resume`. @param spool its real path */
export async function pause(spool: string, args: Args): Promise<string> {
  const sinceMs = Date.now()
  const untilMs = givenTime(args, 'until', sinceMs) ?? null
  if (untilMs !== null && untilMs <= sinceMs) throw wrongArg('until', 'a time to come', args.until ?? '')
  return `paused: ${describePauses(await (await openTaskStore(spool)).pause({ pair: pairIn(args), sinceMs, untilMs }))}`
}

export async function resume(spool: string, args: Args): Promise<string> {
  const pair = pairIn(args)
  const { ended, left } = await (await openTaskStore(spool)).resume(
    given(args, 'all') === undefined ? pair : 'all',
  )
  const what = ended.map(each => describePair(each.pair)).join('; ')
  const done = ended.length === 0 ? 'nothing was paused' : `resumed: ${what}`
  return left.pauses.length === 0 ? done : `${done}; still paused: ${describePauses(left)}`
}

function pairIn(args: Args): PausedPair | null {
  const text = given(args, 'key')
  if (text === undefined) return null
  const [key, value] = pairOf(text)
  return [key.toString('latin1'), value.toString('latin1')]
}

/** Sets how many processes the daemons of a spool have for it, until `auto`. */
export async function scale(spool: string, args: Args, known?: readonly string[]): Promise<string> {
  const to = given(args, 'to') ?? ''
  if (!WISH.test(to)) throw wrongArg('to', 'N, +N, -N or auto', to)
  const sockets = known ?? (await daemonSocketsOf(spool))
  const answers = await Promise.allSettled(sockets.map(path => askDaemon(path, 'scale', { spool, to })))
  const sizes = answers.flatMap(answer => (answer.status === 'fulfilled' ? [sizeText(answer.value)] : []))
  if (sizes.length > 0) return sizes.join('; ')
  const [fault] = answers.flatMap(answer => (answer.status === 'rejected' ? [messageOf(answer.reason)] : []))
  throw new Error(fault ?? 'no daemon runs this spool')
}

function sizeText(answer: unknown): string {
  if (!hasFields(answer, { pid: 'count', wanted: 'count', present: 'count' }, {})) return 'scaled'
  const { pid, wanted, present } = answer as Readonly<Record<'pid' | 'wanted' | 'present', number>>
  return `process ${pid}: ${wanted} processes wanted, ${present} present`
}
