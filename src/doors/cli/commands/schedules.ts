import { ACTIONS } from '../../../admin/operate/actions.js'
import { SpooldError } from '../../../base/errors.js'
import { openTaskStore } from '../../../engines/open-engine.js'
import type { ScheduleSnapshot } from '../../../runtime/stats/snapshot.js'
import { audit } from '../audit.js'
import type { CommandContext } from '../context.js'
import { inEachSpool } from '../in-each-spool.js'
import { type IniOptions, type Place, spoolsOf } from '../places.js'
import { schedulesOf, statusOf } from '../status/spool-status.js'
import { Table } from '../table.js'
import { SCHEDULE_COLUMNS } from '../top/columns.js'

interface SchedulesOptions extends IniOptions {
  readonly run?: string
  readonly pause?: string
  readonly resume?: string
  readonly remove?: string
  readonly json?: boolean
}

const VERBS = ['run', 'pause', 'resume', 'remove'] as const
type Verb = (typeof VERBS)[number]

/**
 * `spoold schedules DIR…`: lists what the daemons of these spools fire by themselves; or runs, pauses, resumes or removes one
 * schedule.
 *
 * @returns 1 if a spool has no daemon that can be asked, or if nothing was done
 */
export async function schedules(
  named: readonly string[],
  options: SchedulesOptions,
  context: CommandContext,
): Promise<number> {
  const [verb, another] = VERBS.filter(each => options[each] !== undefined)
  if (another !== undefined) throw new SpooldError('USAGE', `say either --${verb} or --${another}`)
  const { json = false } = options
  const places = await spoolsOf(named, options, context)
  if (verb === undefined) {
    context.output.purpose = 'look'
    return inEachSpool(places, context, place => list(place, json, context))
  }
  const schedule = options[verb] ?? ''
  return inEachSpool(
    places,
    context,
    place => act(place, verb, schedule, json, context),
    done => `${done} done`,
  )
}

async function list(
  { shown: directory, spool }: Place,
  json: boolean,
  { output, screen }: CommandContext,
): Promise<number> {
  const statuses = await statusOf(spool, false)
  if (statuses.every(({ source }) => source !== 'daemon'))
    throw new Error('no daemon that can be asked runs it')
  const found = schedulesOf(statuses)
  if (json) {
    for (const each of found) output.json({ spooler: directory, ...each })
    return 0
  }
  const nowMs = Date.now()
  const facts = SCHEDULE_COLUMNS.map(column => ({
    ...column,
    cell: (each: ScheduleSnapshot) => column.cell(each, nowMs),
  }))
  const table = new Table<ScheduleSnapshot>(
    [{ title: 'SCHEDULE', fit: 'whole', cell: ({ id }) => id }, ...facts],
    screen(),
    line => output.painted(line),
  )
  for (const each of found) table.add(each)
  table.end()
  return 0
}

async function act(
  { shown: directory, spool }: Place,
  verb: Verb,
  schedule: string,
  json: boolean,
  { output }: CommandContext,
): Promise<number> {
  const action = `${verb}-schedule` as const
  const store = await openTaskStore(spool)
  await audit(store, { action, filter: JSON.stringify({ schedule }) }, output)
  const done = await ACTIONS[action].run(spool, { schedule })
  const answer = { command: 'schedules', spooler: directory, schedule, verb, done }
  if (json) output.json(answer)
  else output.line(`${directory}: ${schedule}: ${done}`)
  return 0
}
