import { timeArg, wrongArg } from '../../../admin/operate/args.js'
import { pairOf } from '../../../admin/operate/selection.js'
import { SpooldError } from '../../../base/errors.js'
import {
  describePair,
  describePauses,
  NO_PAUSES,
  type PausedPair,
  type Pauses,
} from '../../../base/task/pause.js'
import { toByteString } from '../../../base/task/ref.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import { neighboursOf } from '../../../engines/spool/neighbours.js'
import { isRedisAddress } from '../../../formats/protocol/redis-address.js'
import { ownersSight, seenPause, seenPauses } from '../../../formats/protocol/sight.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { inEachSpool } from '../in-each-spool.js'
import { type IniOptions, type Place, spoolsOf } from '../places.js'
import { jsonBytes } from '../render.js'

interface PauseOptions extends IniOptions {
  readonly key?: readonly string[]
  readonly until?: string
  readonly json?: boolean
}

interface ResumeOptions extends IniOptions {
  readonly key?: readonly string[]
  readonly all?: boolean
  readonly json?: boolean
}

/** `spoold pause DIR…`: pauses spools. @returns 1 if a spool could not be paused, or if a uWSGI goes on in it */
export async function pause(
  named: readonly string[],
  { key, until, ini, json = false }: PauseOptions,
  context: CommandContext,
): Promise<number> {
  const places = await spoolsOf(named, ini === undefined ? {} : { ini }, context)
  const pair = onlyPair(key)
  const sinceMs = Date.now()
  const untilMs = until === undefined ? null : timeArg('--until', until, sinceMs) * 1000
  if (untilMs !== null && untilMs <= sinceMs) throw wrongArg('--until', 'a time to come', until)
  const others = context.ownProcess.part === undefined ? uwsgisIn(places) : []
  const pauseOne = async ({ shown: directory, spool }: Place) => {
    const store = await openTaskStore(spool)
    await audit(store, { action: 'pause', ...aboutOf(key, until) }, context.output)
    const now = seenPauses(await store.pause({ pair, sinceMs, untilMs }), ownersSight(await store.hide()))
    const text = `${directory}: paused: ${describePauses(now)}`
    if (json) context.output.json(asJson('pause', directory, now))
    else context.output.line(text)
    return 0
  }
  const code = await inEachSpool(places, context, pauseOne, done => `${done} paused`)
  for (const { directory, pid } of others)
    context.output.complain(
      `${directory}: a uWSGI (pid ${pid}) works on it, knows no pauses, and goes on; stop it, or use spoold hold`,
    )
  return others.length > 0 ? Math.max(1, code) : code
}

/** `spoold resume DIR…`: ends pauses. @returns 1 if a spool could not be resumed */
export async function resume(
  named: readonly string[],
  { key, all = false, ini, json = false }: ResumeOptions,
  context: CommandContext,
): Promise<number> {
  const places = await spoolsOf(named, ini === undefined ? {} : { ini }, context)
  const pair = onlyPair(key)
  if (all && pair !== null) throw new SpooldError('USAGE', 'say either --key or --all')
  const resumeOne = async ({ shown: directory, spool }: Place) => {
    const store = await openTaskStore(spool)
    await audit(store, { action: 'resume', ...aboutOf(key) }, context.output)
    const resumed = await store.resume(all ? 'all' : pair)
    const sight = ownersSight(await store.hide())
    const ended = resumed.ended.map(each => seenPause(each, sight))
    const left = seenPauses(resumed.left, sight)
    if (json) {
      context.output.json(asJson('resume', directory, left))
      return 0
    }
    const what = all ? 'nothing' : describePair(pair === null ? null : sight.hide.pair(pair))
    const done =
      ended.length > 0
        ? `resumed: ${ended.map(({ pair: each }) => describePair(each)).join('; ')}`
        : `not paused: ${what}`
    const rest = left.pauses.length > 0 ? `; still paused: ${describePauses(left)}` : ''
    context.output.line(`${directory}: ${all && ended.length === 0 ? 'resumed' : done}${rest}`)
    return 0
  }
  return inEachSpool(places, context, resumeOne, done => `${done} resumed`)
}

function aboutOf(key: readonly string[] = [], until?: string): { readonly filter?: string } {
  const filter = { ...(key.length === 0 ? {} : { key }), ...(until === undefined ? {} : { until }) }
  return Object.keys(filter).length === 0 ? {} : { filter: JSON.stringify(filter) }
}

/** Returns the pair of `--key`; null for the whole spool. Refuses several, because they leave open whether a task needs all. */
function onlyPair(keys: readonly string[] = []): PausedPair | null {
  const [key, another] = keys
  if (another !== undefined) throw new SpooldError('USAGE', 'one --key at a time: each is a pause of its own')
  if (key === undefined) return null
  const [name, value] = pairOf(key)
  return [name.toString('latin1'), value.toString('latin1')]
}

/** Returns the uWSGIs that work on spools. Call it before this process becomes a spool's owner, who may see fewer processes. */
function uwsgisIn(places: readonly Place[]) {
  return places.flatMap(({ shown: directory, spool }) => {
    if (isRedisAddress(spool)) return []
    try {
      return neighboursOf(toByteString(spool))
        .filter(({ isUwsgi }) => isUwsgi)
        .map(({ pid }) => ({ directory, pid }))
    } catch {
      return [] // reported where the spool is changed
    }
  })
}

function asJson(command: string, spooler: string, { pauses }: Pauses = NO_PAUSES): object {
  const bytes = (text: string) => jsonBytes(Buffer.from(text, 'latin1'))
  return {
    command,
    spooler,
    paused: pauses.map(({ pair, sinceMs, untilMs }) => ({
      key: pair === null ? null : bytes(pair[0]),
      value: pair === null ? null : bytes(pair[1]),
      since: sinceMs,
      until: untilMs,
    })),
  }
}
