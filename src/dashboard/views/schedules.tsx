import type { ScheduleRow } from '../models/schedules.js'
import { Table, When } from './parts.js'

export function Schedules({ rows, nowMs }: { rows: readonly ScheduleRow[]; nowMs: number }) {
  return (
    <Table
      name="Schedules"
      columns={[
        { title: 'What', cell: ({ what }) => what },
        { title: 'When', cell: ({ when }) => <code>{when}</code> },
        {
          title: 'Next',
          cell: ({ nextAtMs }) => (nextAtMs === null ? '' : <When ms={nextAtMs} nowMs={nowMs} />),
        },
        { title: 'Spool', cell: ({ spool }) => spool ?? 'every daemon fires it' },
      ]}
      rows={rows}
      empty="Nothing is scheduled."
    />
  )
}
