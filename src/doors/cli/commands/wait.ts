import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { wrongArg } from '../../../admin/operate/args.js'
import { UUID } from '../../../admin/operate/find.js'
import { MAX_TIMER_MS } from '../../../base/clock.js'
import { doEach } from '../../../base/each.js'
import { SpooldError } from '../../../base/errors.js'
import { hasFields } from '../../../base/json-guard.js'
import { baseName, type Ref, toByteString } from '../../../base/task/ref.js'
import { parseDuration } from '../../../base/time-text.js'
import { askDaemon } from '../../../engines/control/client.js'
import { chunksOf } from '../../../engines/directory/word-of-daemon.js'
import { daemonSocketsOf, openTaskStore } from '../../../engines/open-engine.js'
import { seenLetter } from '../../../engines/spool/admin/task-view.js'
import { createdAtMicros, hasUwsgiPrefix } from '../../../engines/spool/names.js'
import type { Ended, TaskStore } from '../../../engines/task-store.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { ownersSight } from '../../../formats/protocol/sight.js'
import { asOwners } from '../acting-owner.js'
import type { CommandContext } from '../context.js'
import { commandExitCode } from '../exit-code.js'
import { distinct, type GoneTask, type IniOptions, isUsed, type NamedTask, tasksOf } from '../places.js'
import { type AwaitedTask, type ReportOptions, type UnfinishedTask, WaitReport } from '../wait/wait-report.js'

interface WaitOptions extends IniOptions, ReportOptions {
  readonly timeout?: string
}

/**
 * `spoold wait PATH…`: waits until tasks have ended.
 *
 * @returns 0 if all are done or gone, 1 if one is dead, 4 if one cannot have been a task, 124 if one has not ended in time
 */
export async function wait(
  words: readonly string[],
  options: WaitOptions,
  context: CommandContext,
): Promise<number> {
  const { output, ownProcess } = context
  output.purpose = 'judge'
  if (words.length === 0)
    throw new SpooldError('USAGE', 'name a task: its file, or its name or id and --ini FILE')
  const timeoutMs = timeoutOf(options.timeout)
  const report = new WaitReport(options, output)
  const fault = (error: SpooldError) =>
    report.fault(`[${error.code}] ${error.message}`, commandExitCode(error))
  const found = await tasksOf(words, options, context, fault)
  const gone = found.filter(each => each.how === 'gone')
  if (ownProcess.part === undefined) await reportGone(gone, report)
  const bySpool = new Map<string, Map<Ref, NamedTask>>()
  for (const each of found) {
    if (each.how === 'gone') continue
    if (!isTask(each)) {
      if (ownProcess.part === undefined) report.unknown(each.word, `${each.place.spool} is no spool`)
      continue
    }
    const tasks = bySpool.get(each.place.spool) ?? new Map<Ref, NamedTask>()
    bySpool.set(each.place.spool, tasks.set(each.task.ref, each))
  }
  const places = distinct(
    [...bySpool.values()].flatMap(tasks => [...tasks.values()].map(({ place }) => place)),
  )
  return asOwners(ownProcess, places, async mine => {
    const signal = timeoutMs === undefined ? new AbortController().signal : AbortSignal.timeout(timeoutMs)
    setMaxListeners(0, signal)
    const missing = new Map<string, Missing>()
    const waits = mine.map(({ spool }) =>
      waitIn(spool, bySpool.get(spool) ?? new Map(), report, missing, signal),
    )
    const left = (await Promise.all(waits)).flat()
    await doEach(missing, ([spool, tasks]) => reportMissing(spool, tasks, report), { atOnce: SPOOLS_AT_ONCE })
    await report.unfinished(left, timeoutMs ?? 0)
    return report.exitCode
  })
}

/** Returns how long to wait; undefined for ever. @throws SpooldError USAGE */
function timeoutOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const ms = parseDuration(text)
  if (ms !== undefined) return Math.min(ms, MAX_TIMER_MS)
  throw wrongArg('--timeout', 'a time such as 30s, 10m or 1h', text)
}

/** The number of spools whose daemons are asked at the same time: each takes a connection. */
const SPOOLS_AT_ONCE = 16

/** Reports tasks that are in none of the spools where they may have been: how they ended, if a daemon remembers it. */
async function reportGone(gone: readonly GoneTask[], report: WaitReport): Promise<void> {
  const names = new Map<string, Set<string>>()
  for (const each of gone.flatMap(({ sought }) => sought))
    names.set(each.place.spool, new Set([...(names.get(each.place.spool) ?? []), ...callsOf(each)]))
  const ends = new Map<string, ReadonlyMap<string, End>>()
  const ask = async ([spool, all]: [string, Set<string>]) => {
    ends.set(spool, await recall(spool, [...all]))
  }
  await doEach(names, ask, { atOnce: SPOOLS_AT_ONCE })
  for (const { word, sought } of gone) {
    const [end] = sought.flatMap(each => {
      const [kind] = callsOf(each).flatMap(name => ends.get(each.place.spool)?.get(name) ?? [])
      return kind === undefined ? [] : [{ each, kind }]
    })
    const lost = sought.find(mayHaveBeen)
    if (end !== undefined) report.ended(shownOf(end.each), endOf(end.kind))
    else if (lost !== undefined) report.ended(shownOf(lost), { kind: 'unknown' })
    else report.unknown(word, sought.length === 0 ? 'it leads to no spool' : 'no task has this name or id')
  }
}

type SoughtIn = GoneTask['sought'][number]

/** Returns the names that a daemon may know a task by. */
function callsOf({ ref, id, stored }: SoughtIn): string[] {
  return [stored ?? ref, ref, toByteString(id)]
}

function shownOf({ place: { shown }, ref, stored }: SoughtIn): AwaitedTask {
  return { shown, ref: stored ?? ref }
}

function endOf(kind: End): Ended {
  return kind === 'dead' ? { kind, letter: undefined } : { kind }
}

/** True if the name has the form that writers give to tasks, or if the id has been used: the task may have ended long ago. */
function mayHaveBeen({ place, ref, id, stored }: SoughtIn): boolean {
  if (stored !== undefined || UUID.test(id)) return true
  return isRedisAddress(place.spool) ? /^\d+$/.test(id) : createdAtMicros(ref) !== undefined
}

/** True if the file can be a task. A wait for another file, outside of a spool, would never end, because nothing removes it. */
function isTask({ place: { spool }, task: { ref } }: NamedTask): boolean {
  return isRedisAddress(spool) || isUsed(spool) || hasUwsgiPrefix(baseName(ref))
}

/** Tasks that were gone when the wait for them began, as they are shown. */
type Missing = Map<Ref, AwaitedTask>

/** Reports how tasks have ended that were there a moment before the wait for them began. */
async function reportMissing(spool: string, tasks: Missing, report: WaitReport): Promise<void> {
  const ends = await recall(spool, [...tasks.keys()])
  for (const [ref, task] of tasks) report.ended(task, endOf(ends.get(ref) ?? 'gone'))
}

/** Waits for the tasks of one spool. @param missing gets those that are gone @returns those that have not ended */
async function waitIn(
  spool: string,
  tasks: ReadonlyMap<Ref, NamedTask>,
  report: WaitReport,
  missing: Map<string, Missing>,
  signal: AbortSignal,
): Promise<UnfinishedTask[]> {
  const asShown = (ref: Ref) => ({ shown: tasks.get(ref)?.place.shown ?? spool, ref })
  report.expect(tasks.size)
  const store = await openTaskStore(spool)
  const sight = ownersSight(await store.hide())
  const gone: Missing = new Map()
  const tell = (ref: Ref, how: Ended) => {
    if (how.kind === 'unknown') gone.set(ref, asShown(ref))
    else if (how.kind === 'dead' && how.letter !== undefined)
      report.ended(asShown(ref), { ...how, letter: seenLetter(how.letter, sight) })
    else report.ended(asShown(ref), how)
  }
  const left = await store.awaitEnds([...tasks.keys()], tell, signal)
  if (gone.size > 0) missing.set(spool, gone)
  return left.map(ref => ({ ...asShown(ref), state: stateOf(store, ref) }))
}

async function stateOf(store: TaskStore, ref: Ref): Promise<string> {
  try {
    return (await store.view(ref))?.state ?? 'gone'
  } catch {
    return 'closed to this user'
  }
}

type End = 'done' | 'dead' | 'gone'

/** The daemon is asked again for this long, because the file of a task disappears before its worker reports the end. */
const REPORT_MS = 300
const AGAIN_MS = 30

/**
 * Returns how tasks that are gone have ended, as far as the daemons of their spool remember it.
 *
 * @param spool its real path, or its name on Redis
 * @param names of tasks, or their ids; one character is one byte
 */
async function recall(spool: string, names: readonly string[]): Promise<ReadonlyMap<string, End>> {
  const ends = new Map<string, End>()
  const giveUpAt = performance.now() + REPORT_MS
  for (;;) {
    const isAnswered = await askAll(spool, names, ends)
    const areAllKnown = names.every(name => ends.has(name))
    if (!isAnswered || areAllKnown || performance.now() > giveUpAt) return ends
    await sleep(AGAIN_MS)
  }
}

/** Asks each daemon, and adds to `ends`. @returns true if a daemon has answered */
async function askAll(spool: string, names: readonly string[], ends: Map<string, End>): Promise<boolean> {
  let isAnswered = false
  for (const path of await daemonSocketsOf(spool).catch(() => []))
    for (const tasks of chunksOf(names.filter(name => !ends.has(name))))
      try {
        const answer = await askDaemon(path, 'ended', { spool, tasks })
        if (!isAnswer(answer)) break
        isAnswered = true
        for (const end of ['gone', 'dead', 'done'] as const)
          for (const name of answer[end]) ends.set(name, end)
      } catch {
        break // the daemon is dead, of another version, or not ours to ask
      }
  return isAnswered
}

function isAnswer(answer: unknown): answer is Readonly<Record<End, readonly string[]>> {
  return hasFields(answer, { done: 'texts', dead: 'texts', gone: 'texts' }, {})
}
