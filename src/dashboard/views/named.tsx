import type { NamedRow } from '../models/named.js'
import { Table, When } from './parts.js'
import { countText } from './text.js'

export function Named({ rows, nowMs }: { rows: readonly NamedRow[]; nowMs: number }) {
  return (
    <Table
      name="Named tasks"
      columns={[
        { title: 'Task', cell: ({ name }) => name },
        { title: 'Slots', isNumber: true, cell: ({ slots }) => (slots === null ? '' : countText(slots)) },
        {
          title: 'Wait for a slot',
          isNumber: true,
          cell: ({ queued }) => (queued === 0 ? '' : countText(queued)),
        },
        { title: 'Scheduled', cell: ({ rhythm }) => (rhythm === null ? '' : <code>{rhythm}</code>) },
        {
          title: 'Next',
          cell: ({ nextAtMs }) => (nextAtMs === null ? '' : <When ms={nextAtMs} nowMs={nowMs} />),
        },
      ]}
      rows={rows}
      empty="No task waits for a slot or is periodic."
    />
  )
}
