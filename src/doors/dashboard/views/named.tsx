import type { NamedRow } from '../models/named.js'
import { type Column, Table, When } from './parts.js'
import { countText, microsText, rateText } from './text.js'

export function Named({ rows, nowMs }: { rows: readonly NamedRow[]; nowMs: number }) {
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
