import type { ScheduleRow } from '../models/schedules.js'
import { ActionForm, type Actor } from './actions.js'
import { spoolHref } from './links.js'
import { Table, When } from './parts.js'

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

export function Schedules({ rows, nowMs, actor, idOf }: SchedulesProps) {
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
