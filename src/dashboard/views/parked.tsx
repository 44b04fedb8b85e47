import type { SpoolSnapshot } from '../../stats/snapshot.js'
import { describePair } from '../../task/pause.js'
import type { ParkReason } from '../../task/report.js'
import { Table, When } from './parts.js'
import { countText } from './text.js'

const MEANINGS: Readonly<Record<ParkReason, string>> = {
  alone: 'They died with others, and run one at a time, in a worker of their own.',
  slot: 'As many of their name run as may run at a time.',
  paused: 'A person has paused them.',
  'unknown-name': 'No handler knows the name of the task; they run after a reload with one that does.',
}

/** What keeps due tasks from running. */
export function Parked({ spool: { tasks, paused }, nowMs }: { spool: SpoolSnapshot; nowMs: number }) {
  const reasons = Object.entries(tasks.parked) as ReadonlyArray<[ParkReason, number]>
  return (
    <>
      <section class="card" aria-labelledby="reasons">
        <h2 id="reasons">By reason</h2>
        <Table
          name="Parked tasks by reason"
          columns={[
            { title: 'Reason', cell: ([reason]) => reason },
            { title: 'Tasks', isNumber: true, cell: ([, count]) => countText(count) },
            { title: 'What it means', cell: ([reason]) => MEANINGS[reason] ?? '' },
          ]}
          rows={reasons.filter(([, count]) => count > 0)}
          empty="No task is parked."
        />
      </section>
      <section class="card" aria-labelledby="slots">
        <h2 id="slots">Queues for slots</h2>
        <Table
          name="Tasks that wait for a slot, by name"
          columns={[
            { title: 'Task', cell: ({ name }) => name },
            { title: 'Slots', isNumber: true, cell: ({ count }) => countText(count) },
            { title: 'Wait', isNumber: true, cell: ({ parked }) => countText(parked) },
          ]}
          rows={tasks.slotQueues ?? []}
          empty="No task waits for a slot."
        />
      </section>
      <section class="card" aria-labelledby="pauses">
        <h2 id="pauses">Pauses</h2>
        <Table
          name="Pauses"
          columns={[
            { title: 'Paused', cell: ({ pair }) => describePair(pair) },
            { title: 'Since', cell: ({ sinceMs }) => <When ms={sinceMs} nowMs={nowMs} /> },
            {
              title: 'Until',
              cell: ({ untilMs }) => (untilMs === null ? 'resumed' : <When ms={untilMs} nowMs={nowMs} />),
            },
          ]}
          rows={paused.pauses}
          empty="Nothing is paused."
        />
      </section>
    </>
  )
}
