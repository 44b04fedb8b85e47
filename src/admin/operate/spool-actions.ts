import { counted } from '../../base/counted.js'
import { hasFields } from '../../base/json-guard.js'
import { describePair, describePauses, type PausedPair } from '../../base/task/pause.js'
import { addressedFrom } from '../../engines/client/request-from.js'
import { enqueue as storeTask } from '../../engines/client/spool.js'
import { askDaemon, askEach } from '../../engines/control/client.js'
import { daemonSocketsOf, openTaskStore } from '../../engines/open-engine.js'
import { taskPriority } from '../../engines/spool/admin/task-view.js'
import type { Change, TaskStore } from '../../engines/task-store.js'
import { type Sight, seenPause, seenPauses } from '../../formats/protocol/sight.js'
import { type Args, given, givenTime, type SpoolActor, wrongArg } from './args.js'
import { pairOf } from './selection.js'

/** What `scale` takes: N, +N, -N or auto. */
export const WISH = /^(?:[+-]?[0-9]{1,6}|auto)$/

/** Pauses a spool, or only its tasks with a pair, until a time or `resume`. @param spool its real path */
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

const NO_DAEMON = 'no daemon runs this spool'

/** Sets how many processes the daemons of a spool run for it, until `auto`. */
export async function scale(spool: string, args: Args, by: SpoolActor = {}): Promise<string> {
  const to = given(args, 'to') ?? ''
  if (!WISH.test(to)) throw wrongArg('to', 'N, +N, -N or auto', to)
  const sockets = by.sockets ?? (await daemonSocketsOf(spool))
  const { answers, fault } = await askEach(sockets, path => askDaemon(path, 'scale', { spool, to }))
  if (answers.length === 0) throw new Error(fault ?? NO_DAEMON)
  return answers.map(({ answer }) => sizeText(answer)).join('; ')
}

function sizeText(answer: unknown): string {
  if (!hasFields(answer, { pid: 'count', wanted: 'count', present: 'count' }, {})) return 'scaled'
  const { pid, wanted, present } = answer as Readonly<Record<'pid' | 'wanted' | 'present', number>>
  return `process ${pid}: ${counted(wanted, 'process', 'processes')} wanted, ${present} present`
}

/** What a daemon can do to one of its schedules, as the verbs of its control socket. */
type ScheduleVerb = 'run' | 'pause' | 'resume' | 'remove'

/**
 * Does something to a schedule of a spool, by the first of its daemons that has the schedule and does it. A schedule that running
 * code has added exists in each daemon, so all of them remove it.
 */
export const onSchedule =
  (verb: ScheduleVerb) =>
  async (spool: string, args: Args, by: SpoolActor = {}): Promise<string> => {
    const schedule = given(args, 'schedule')
    if (schedule === undefined) throw wrongArg('schedule', 'the name of a schedule', '')
    const sockets = by.sockets ?? (await daemonSocketsOf(spool))
    const done: string[] = []
    let because: string | undefined
    for (const path of sockets) {
      if (done.length > 0 && verb !== 'remove') break
      const { answers, fault } = await askEach([path], at => askDaemon(at, verb, { spool, schedule }))
      done.push(...answers.map(({ answer }) => doneIn(answer)))
      because ??= fault
    }
    const [first] = done
    if (first === undefined) throw new Error(because ?? NO_DAEMON)
    return first
  }

function doneIn(answer: unknown): string {
  return hasFields(answer, { done: 'text' }, {}) ? (answer as { readonly done: string }).done : 'done'
}

/** A larger body is neither edited nor copied, because it would have to be in memory. */
const MAX_BODY_BYTES = 16 * 1024 * 1024

type TypedPair = readonly [key: string, value: string]

/** Stores a task. @returns where it is stored, for people */
export async function enqueue(spool: string, args: Args): Promise<string> {
  const atMs = givenTime(args, 'at', Date.now())
  const priority = given(args, 'priority')
  const { path } = await storeTask(typedPairs(args.vars), {
    spooler: spool,
    ...bodyIn(args),
    ...(atMs === undefined ? {} : { at: atMs / 1000 }),
    ...(priority === undefined ? {} : { priority }),
  })
  return `stored as ${path}`
}

/**
 * Returns the change that puts an edited copy in place of a task that does not run by itself (it is held, or a dead letter).
 * After a kill in between both are there, and only the copy runs.
 */
export function edit(args: Args): Change {
  return {
    kind: 'replace',
    request(task, body) {
      const bodyBytes = task.file.bytes - task.file.bodyOffset
      if (args.body === undefined && bodyBytes > MAX_BODY_BYTES)
        throw new Error(`its body has ${bodyBytes} bytes: too many to be edited`)
      const pairs = typedPairs(args.vars)
      const priority = taskPriority(task)
      return addressedFrom(pairs, {
        ...(args.body === undefined ? (bodyBytes > 0 ? { body: body() } : {}) : bodyIn(args)),
        ...(priority === null || pairs.some(([key]) => key === 'priority') ? {} : { priority }),
      }).request
    },
  }
}

function bodyIn({ body = '' }: Args): { body?: string } {
  return body === '' ? {} : { body }
}

/**
 * Parses the keys and values of a task, given as JSON: an object, or pairs if a key repeats.
 *
 * @throws SpooldError USAGE
 */
function typedPairs(text = ''): TypedPair[] {
  const pairs = parsed(text)
  const isRight = ([key, value]: readonly unknown[]) => typeof key === 'string' && typeof value === 'string'
  if (pairs === undefined || !pairs.every(pair => pair.length === 2 && isRight(pair)))
    throw wrongArg('vars', 'a JSON object whose values are texts, or an array of [key, value]', text)
  const known = pairs as unknown as TypedPair[]
  // the key would name another spool
  if (known.some(([key]) => key === 'spooler')) throw wrongArg('vars', 'no key spooler', text)
  return known
}

function parsed(text: string): ReadonlyArray<readonly unknown[]> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (Array.isArray(value)) return value.every(Array.isArray) ? value : undefined
    return typeof value === 'object' && value !== null ? Object.entries(value) : undefined
  } catch {
    return undefined
  }
}
