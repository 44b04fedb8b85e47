import type { Child } from 'hono/jsx'
import type { RunningRow } from '../models/running.js'
import { Table } from './parts.js'
import { spanText } from './text.js'

interface RunningProps {
  /** The page of a task. */
  urlOf(ref: string): string
  readonly rows: readonly RunningRow[]
  readonly nowMs: number
  readonly actions: ((row: RunningRow) => Child) | null
}

export function Running({ urlOf, rows, nowMs, actions }: RunningProps) {
  return (
    <Table
      name="Running tasks"
      columns={[
        {
          title: 'Task',
          cell: ({ ref, name }) => (
            <a class="path" href={urlOf(ref)}>
              {name}
            </a>
          ),
        },
        { title: 'For', isNumber: true, cell: ({ sinceMs }) => spanText(nowMs - sinceMs) },
        { title: 'Process', isNumber: true, cell: ({ pid }) => String(pid) },
        ...(actions === null ? [] : [{ title: 'Actions', cell: actions }]),
      ]}
      rows={rows}
      empty="Nothing runs now."
    />
  )
}
