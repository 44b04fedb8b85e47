import type { AuditEntry } from '../../../engines/spool/admin/audit.js'
import type { PageContext } from '../context.js'
import { type NamedRow, namedIn } from '../models/named.js'
import { type ScheduleRow, scheduleRows } from '../models/schedules.js'
import { ActionForm, type Actor } from '../views/actions.js'
import { spoolHref } from '../views/links.js'
import { type Column, Table, When } from '../views/parts.js'
import { countText, microsText, rateText } from '../views/text.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** Named tasks: what runs, how it ended, their slots, queues and schedules. */
export async function namedPage(context: PageContext, params: Params) {
  const { snapshot, place } = await spoolScene(context, params)
  const source =
    "From the daemon's snapshot: at most a hundred names that it has run since its start, with rates over five minutes, a hundred that wait for slots, and those that are periodic. What other daemons run is not counted."
  return framed(
    context,
    snapshot,
    place,
    { page: 'named', title: 'Named tasks', source, isLive: true },
    <Named rows={namedIn(snapshot, place.directory)} nowMs={snapshot.atMs} />,
  )
}

function Named({ rows, nowMs }: { rows: readonly NamedRow[]; nowMs: number }) {
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
        {
          title: 'Next',
          cell: ({ nextAtMs }) => (nextAtMs === null ? '' : <When ms={nextAtMs} nowMs={nowMs} />),
        },
      ]}
      rows={rows}
      empty="No named task has run, waits for a slot or is periodic."
    />
  )
}

function count(title: string, key: 'queued' | 'retried' | 'buried' | 'killed'): Column<NamedRow> {
  return { title, isNumber: true, cell: row => (row[key] === 0 ? '' : countText(row[key])) }
}

/** `2 of 4`: where no more than four may run. */
function runningText({ running, slots }: NamedRow): string {
  return slots === null ? countText(running) : `${countText(running)} of ${countText(slots)}`
}

function withRate(total: number, perSecond: number): string {
  return total === 0 ? '' : `${countText(total)} (${rateText(perSecond)})`
}

/** What fires by itself. */
export async function schedulesPage(context: PageContext) {
  const snapshot = await context.daemon.snapshot()
  const rows = scheduleRows(snapshot.schedules)
  const source =
    "From the daemon's snapshot: all timers, cron schedules, commands, monitors and periodic tasks, the next one first."
  return framed(
    context,
    snapshot,
    null,
    { page: 'schedules', title: 'Schedules', source, isLive: true },
    <Schedules
      rows={rows}
      nowMs={snapshot.atMs}
      actor={context.viewer}
      idOf={spool => context.spools.all.find(({ directory }) => directory === spool)?.id}
    />,
  )
}

const ORIGINS: Readonly<Record<ScheduleRow['origin'], string>> = {
  configuration: 'configuration',
  handlers: 'handlers',
  code: 'running code, until a reload',
}

interface SchedulesProps {
  readonly rows: readonly ScheduleRow[]
  readonly nowMs: number
  readonly actor: Actor
  /** What URLs call a spool; undefined: it is none of this dashboard's. */
  idOf(spool: string | null): string | undefined
}

function Schedules({ rows, nowMs, actor, idOf }: SchedulesProps) {
  const mayAct = actor.may('run-schedule')
  const actions = {
    title: 'Actions',
    cell: (row: ScheduleRow) => <ScheduleActions row={row} actor={actor} id={idOf(row.spool)} />,
  }
  return (
    <Table
      name="Schedules"
      columns={[
        { title: 'What', cell: ({ what }) => what },
        { title: 'When', cell: ({ when }) => <code>{when}</code> },
        { title: 'Next', cell: row => <Next row={row} nowMs={nowMs} /> },
        { title: 'From', cell: ({ origin }) => ORIGINS[origin] },
        { title: 'Spool', cell: ({ spool }) => spool ?? 'every daemon fires it' },
        ...(mayAct ? [actions] : []),
      ]}
      rows={rows}
      empty="Nothing is scheduled."
    />
  )
}

function Next({ row: { nextAtMs, pausedSinceMs }, nowMs }: { row: ScheduleRow; nowMs: number }) {
  if (pausedSinceMs !== null)
    return (
      <>
        <span class="badge warn">paused</span> <When ms={pausedSinceMs} nowMs={nowMs} />
      </>
    )
  return nextAtMs === null ? '' : <When ms={nextAtMs} nowMs={nowMs} />
}

/** What can be done to a schedule that a spool of this dashboard has. */
function ScheduleActions({ row, actor, id }: { row: ScheduleRow; actor: Actor; id: string | undefined }) {
  if (id === undefined) return null
  const { pausedSinceMs, origin } = row
  const form = { actor, at: spoolHref(id, 'spool'), next: '/schedules', fields: { schedule: row.id } }
  return (
    <div class="actions">
      <ActionForm name="run-schedule" {...form} />
      <ActionForm name={pausedSinceMs === null ? 'pause-schedule' : 'resume-schedule'} {...form} />
      {origin === 'code' && actor.may('remove-schedule') && <ActionForm name="remove-schedule" {...form} />}
    </div>
  )
}

const MOST_LINES = 200

/** What people did in a spool, here and on the command line. */
export async function auditPage(context: PageContext, params: Params) {
  const { snapshot, place } = await spoolScene(context, params)
  const entries = await place.audit(MOST_LINES)
  const source = `The last ${MOST_LINES} lines at most of ${place.isOnRedis ? 'the audit in Redis' : '.spoold/audit'}, the newest first. A line comes before each act, and one with its result after it.`
  return framed(
    context,
    snapshot,
    place,
    { page: 'audit', title: 'Audit', source },
    <Audit entries={entries} nowMs={snapshot.atMs} />,
  )
}

/** A command writes no second line. */
function resultOf({ role, result }: AuditEntry): string {
  return result ?? (role === 'owner' ? '' : 'about to begin')
}

function Audit({ entries, nowMs }: { entries: readonly AuditEntry[]; nowMs: number }) {
  return (
    <Table
      name="Audit"
      columns={[
        { title: 'When', cell: ({ at }) => <When ms={at} nowMs={nowMs} /> },
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
