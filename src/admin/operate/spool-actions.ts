import { counted } from '../../base/counted.js'
import { messageOf } from '../../base/errors.js'
import { hasFields } from '../../base/json-guard.js'
import { describePair, describePauses, type PausedPair } from '../../base/task/pause.js'
import { askDaemon } from '../../engines/control/client.js'
import { daemonSocketsOf, openTaskStore } from '../../engines/open-engine.js'
import type { TaskStore } from '../../engines/task-store.js'
import { type Sight, seenPause, seenPauses } from '../../formats/protocol/sight.js'
import { type Args, given, givenTime, type SpoolActor, wrongArg } from './args.js'
import { pairOf } from './selection.js'

const WISH = /^(?:[+-]?[0-9]{1,6}|auto)$/

/** Starts no more tasks, or none with a pair, until a time or `resume`. @param spool its real path */
export async function pause(spool: string, args: Args, by: SpoolActor = {}): Promise<string> {
  const sinceMs = Date.now()
  const untilMs = givenTime(args, 'until', sinceMs) ?? null
  if (untilMs !== null && untilMs <= sinceMs) throw wrongArg('until', 'a time to come', args.until ?? '')
  const store = await openTaskStore(spool)
  const now = await store.pause({ pair: pairIn(args), sinceMs, untilMs })
  return `paused: ${describePauses(seenPauses(now, await sightOf(store, by)))}`
}

export async function resume(spool: string, args: Args, by: SpoolActor = {}): Promise<string> {
  const pair = pairIn(args)
  const store = await openTaskStore(spool)
  const { ended, left } = await store.resume(given(args, 'all') === undefined ? pair : 'all')
  const sight = await sightOf(store, by)
  const what = ended.map(each => describePair(seenPause(each, sight).pair)).join('; ')
  const done = ended.length === 0 ? 'nothing was paused' : `resumed: ${what}`
  return left.pauses.length === 0 ? done : `${done}; still paused: ${describePauses(seenPauses(left, sight))}`
}

async function sightOf(store: TaskStore, { mayReadPayload = true }: SpoolActor): Promise<Sight> {
  return { mayReadPayload, hide: await store.hide() }
}

function pairIn(args: Args): PausedPair | null {
  const text = given(args, 'key')
  if (text === undefined) return null
  const [key, value] = pairOf(text)
  return [key.toString('latin1'), value.toString('latin1')]
}

/** Sets how many processes the daemons of a spool have for it, until `auto`. */
export async function scale(spool: string, args: Args, by: SpoolActor = {}): Promise<string> {
  const to = given(args, 'to') ?? ''
  if (!WISH.test(to)) throw wrongArg('to', 'N, +N, -N or auto', to)
  const sockets = by.sockets ?? (await daemonSocketsOf(spool))
  const answers = await Promise.allSettled(sockets.map(path => askDaemon(path, 'scale', { spool, to })))
  const sizes = answers.flatMap(answer => (answer.status === 'fulfilled' ? [sizeText(answer.value)] : []))
  if (sizes.length > 0) return sizes.join('; ')
  const [fault] = answers.flatMap(answer => (answer.status === 'rejected' ? [messageOf(answer.reason)] : []))
  throw new Error(fault ?? 'no daemon runs this spool')
}

function sizeText(answer: unknown): string {
  if (!hasFields(answer, { pid: 'count', wanted: 'count', present: 'count' }, {})) return 'scaled'
  const { pid, wanted, present } = answer as Readonly<Record<'pid' | 'wanted' | 'present', number>>
  return `process ${pid}: ${counted(wanted, 'process', 'processes')} wanted, ${present} present`
}
