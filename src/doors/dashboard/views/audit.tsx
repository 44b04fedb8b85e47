import type { AuditEntry } from '../../../engines/spool/admin/audit.js'
import { Table, When } from './parts.js'
import { countText } from './text.js'

/** A command writes no second line. */
function resultOf({ role, result }: AuditEntry): string {
  return result ?? (role === 'owner' ? '' : 'about to begin')
}

export function Audit({ entries, nowMs }: { entries: readonly AuditEntry[]; nowMs: number }) {
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
