import { scheduleText } from '../../../base/task/schedule.js'
import type { AuditEntry } from '../../../engines/spool/admin/audit.js'
import type { DaemonSnapshot, NamedStats, ScheduleSnapshot } from '../../../runtime/stats/snapshot.js'
import type { PageContext } from '../context.js'
import { ActionForm } from '../views/actions.js'
import { spoolHref } from '../views/links.js'
import { type Column, Table, useLook, When } from '../views/parts.js'
import { countText, microsText, rateText } from '../views/text.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** The page of the named tasks: what runs, how runs ended, their slots, queues and schedules. */
export async function namedPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const source =
    "From the daemon's snapshot: at most a hundred names that it has run since its start, with rates over five minutes, a hundred that wait for slots, and those that are periodic. What other daemons run is not counted."
  return framed(
    context,
    at,
    { page: 'named', title: 'Named tasks', source, isLive: true },
    <Named rows={namedIn(at.snapshot, at.place.directory)} />,
  )
}

function Named({ rows }: { rows: readonly NamedRow[] }) {
  return (
    <Table
      name="Named tasks"
      columns={[
        { title: 'Task', cell: ({ name }) => (name === '' ? 'all others' : name) },
        { title: 'Running', isNumber: true, cell: runningText },
        count('Wait for a slot', 'queued'),
        { title: 'Done', isNumber: true, cell: ({ done, doneRate }) => withRate(done, doneRate) },
        {
          title: 'Failed',
          isNumber: true,
          cell: ({ retried, buried, killed, failedRate }) => withRate(retried + buried + killed, failedRate),
        },
        count('Retried', 'retried'),
        count('Buried', 'buried'),
        count('Killed', 'killed'),
        {
          title: 'Mean run',
          isNumber: true,
          cell: ({ meanMs }) => (meanMs === null ? '' : microsText(meanMs * 1000)),
        },
        { title: 'Scheduled', cell: ({ rhythm }) => (rhythm === null ? '' : <code>{rhythm}</code>) },
        { title: 'Next', cell: ({ nextAtMs }) => (nextAtMs === null ? '' : <When ms={nextAtMs} />) },
      ]}
      rows={rows}
      empty="No named task has run, waits for a slot or is periodic."
    />
  )
}

/** What is known of the tasks of one name. An empty name: all further names together. */
interface NamedRow
  extends Pick<NamedStats, 'name' | 'slots' | 'running' | 'done' | 'retried' | 'buried' | 'killed'> {
  /** Runs per second, over the last five minutes. The same for `failedRate`. */
  readonly doneRate: number
  readonly failedRate: number
  /** How long a run takes on average. Null: no run has ended. */
  readonly meanMs: number | null
  /** How many tasks wait for a slot. */
  readonly queued: number
  /** When a periodic task runs, in words. `nextAtMs`: when next. Null: the task is not periodic. */
  readonly rhythm: string | null
  readonly nextAtMs: number | null
}

const UNKNOWN = {
  ...{ slots: null, running: 0, done: 0, retried: 0, buried: 0, killed: 0, doneRate: 0, failedRate: 0 },
  ...{ meanMs: null, queued: 0, rhythm: null, nextAtMs: null },
}

/** Returns the named tasks, by name; all further names together come last. @param spool its real path, or its name on Redis */
function namedIn({ spools, schedules }: DaemonSnapshot, spool: string): NamedRow[] {
  const rows = new Map<string, NamedRow>()
  const known = (name: string): NamedRow => rows.get(name) ?? { name, ...UNKNOWN }
  const { named = [], tasks } = spools.find(({ directory }) => directory === spool) ?? {}
  for (const stats of named) rows.set(stats.name, rowOf(stats))
  for (const { name, count, parked } of tasks?.slotQueues ?? [])
    rows.set(name, { ...known(name), slots: count, queued: parked })
  for (const { schedule, nextAtMs, spool: of } of schedules) {
    if (schedule.kind !== 'periodic' || of !== spool) continue
    const { name, when } = schedule
    const rhythm = 'everyMs' in when ? `every ${when.everyMs / 1000} s` : when.expression
    rows.set(name, { ...known(name), rhythm, nextAtMs })
  }
  return [...rows.values()].sort((a, b) => (a.name === '' || (b.name !== '' && a.name > b.name) ? 1 : -1))
}

function rowOf({
  name,
  slots,
  running,
  done,
  retried,
  buried,
  killed,
  other,
  ranMs,
  rates,
}: NamedStats): NamedRow {
  const ended = done + retried + buried + other
  return {
    ...{ ...UNKNOWN, name, slots, running, done, retried, buried, killed },
    ...{ doneRate: rates.done.m5, failedRate: rates.failed.m5 },
    meanMs: ended === 0 ? null : ranMs / ended,
  }
}

function count(title: string, key: 'queued' | 'retried' | 'buried' | 'killed'): Column<NamedRow> {
  return { title, isNumber: true, cell: row => (row[key] === 0 ? '' : countText(row[key])) }
}

/** Returns `2 of 4` if two run and no more than four may, else the number of those that run. */
function runningText({ running, slots }: NamedRow): string {
  return slots === null ? countText(running) : `${countText(running)} of ${countText(slots)}`
}

function withRate(total: number, perSecond: number): string {
  return total === 0 ? '' : `${countText(total)} (${rateText(perSecond)})`
}

/** The page of what fires by itself. */
export async function schedulesPage(context: PageContext) {
  const snapshot = await context.daemon.snapshot()
  const rows = scheduleRows(snapshot.schedules)
  const source =
    "From the daemon's snapshot: all timers, cron schedules, commands, monitors and periodic tasks, the next one first."
  return framed(
    context,
    { snapshot, place: null },
    { page: 'schedules', title: 'Schedules', source, isLive: true },
    <Schedules
      rows={rows}
      idOf={spool => context.spools.all.find(({ directory }) => directory === spool)?.id}
    />,
  )
}

/** A schedule in words. */
interface ScheduleRow
  extends Pick<ScheduleSnapshot, 'id' | 'origin' | 'spool' | 'nextAtMs' | 'pausedSinceMs'> {
  /** What happens. */
  readonly what: string
  readonly when: string
}

/** Returns the schedules, the next one first, and those without a time last. */
function scheduleRows(schedules: readonly ScheduleSnapshot[]): ScheduleRow[] {
  const rows = schedules.map(({ schedule, ...row }) => ({ ...row, ...scheduleText(schedule) }))
  const time = ({ nextAtMs }: ScheduleRow) => nextAtMs ?? Number.POSITIVE_INFINITY
  return rows.sort((a, b) => time(a) - time(b) || (a.what < b.what ? -1 : 1))
}

const ORIGINS: Readonly<Record<ScheduleRow['origin'], string>> = {
  configuration: 'configuration',
  handlers: 'handlers',
  code: 'running code, until a reload',
}

interface SchedulesProps {
  readonly rows: readonly ScheduleRow[]
  /** Returns the name of a spool in URLs; undefined if the dashboard does not show that spool, or if it is null. */
  idOf(spool: string | null): string | undefined
}

function Schedules({ rows, idOf }: SchedulesProps) {
  const mayAct = useLook().viewer.may('run-schedule')
  const actions = {
    title: 'Actions',
    cell: (row: ScheduleRow) => <ScheduleActions row={row} id={idOf(row.spool)} />,
  }
  return (
    <Table
      name="Schedules"
      columns={[
        { title: 'What', cell: ({ what }) => what },
        { title: 'When', cell: ({ when }) => <code>{when}</code> },
        { title: 'Next', cell: row => <Next row={row} /> },
        { title: 'From', cell: ({ origin }) => ORIGINS[origin] },
        { title: 'Spool', cell: ({ spool }) => spool ?? 'every daemon fires it' },
        ...(mayAct ? [actions] : []),
      ]}
      rows={rows}
      empty="Nothing is scheduled."
    />
  )
}

function Next({ row: { nextAtMs, pausedSinceMs } }: { row: ScheduleRow }) {
  if (pausedSinceMs !== null)
    return (
      <>
        <span class="badge warn">paused</span> <When ms={pausedSinceMs} />
      </>
    )
  return nextAtMs === null ? '' : <When ms={nextAtMs} />
}

/** The forms of what can be done to a schedule. Null if no spool of this dashboard has it. */
function ScheduleActions({ row, id }: { row: ScheduleRow; id: string | undefined }) {
  if (id === undefined) return null
  const { pausedSinceMs, origin } = row
  const form = { at: spoolHref(id, 'spool'), next: '/schedules', fields: { schedule: row.id } }
  return (
    <div class="actions">
      <ActionForm name="run-schedule" {...form} />
      <ActionForm name={pausedSinceMs === null ? 'pause-schedule' : 'resume-schedule'} {...form} />
      {origin === 'code' && <ActionForm name="remove-schedule" {...form} />}
    </div>
  )
}

const MOST_LINES = 200

/** The page of what people did in a spool, here and on the command line. */
export async function auditPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const entries = await at.place.audit(MOST_LINES)
  const source = `The last ${MOST_LINES} lines at most of ${at.place.isOnRedis ? 'the audit in Redis' : '.spoold/audit'}, the newest first. A line comes before each act, and one with its result after it.`
  return framed(context, at, { page: 'audit', title: 'Audit', source }, <Audit entries={entries} />)
}

/** Returns the result of an act. A line of the command line has none, because a command writes no second line. */
function resultOf({ role, result }: AuditEntry): string {
  return result ?? (role === 'owner' ? '' : 'about to begin')
}

function Audit({ entries }: { entries: readonly AuditEntry[] }) {
  return (
    <Table
      name="Audit"
      columns={[
        { title: 'When', cell: ({ at }) => <When ms={at} /> },
        { title: 'Who', cell: ({ who, role }) => `${who} (${role})` },
        { title: 'Action', cell: ({ action }) => action },
        {
          title: 'On',
          cell: ({ task, filter }) => <span class="path">{task ?? filter ?? 'the spool'}</span>,
        },
        {
          title: 'Tasks',
          isNumber: true,
          cell: ({ count }) => (count === undefined ? '' : countText(count)),
        },
        { title: 'Result', cell: resultOf },
      ]}
      rows={entries}
      empty="Nobody has done anything yet."
    />
  )
}
