import { printable } from '../../../base/printable.js'
import type { ParkedGroup, ParkReason } from '../../../base/task/parked.js'
import { describePair } from '../../../base/task/pause.js'
import { baseName, displayName, type Ref } from '../../../base/task/ref.js'
import type { SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import { spoolHref } from './links.js'
import { Table, When } from './parts.js'
import { countText, shortName } from './text.js'

const MEANINGS: Readonly<Record<ParkReason, string>> = {
  alone: 'They died with others, and run one at a time, in a worker of their own.',
  crashed: 'They have crashed their process, and run when no other task is due.',
  slot: 'As many of their name run as may run at a time.',
  paused: 'A person has paused them.',
  'unknown-name': 'No handler knows the name of the task; they run after a reload with one that does.',
}

/** A spool, as URLs have it. */
interface Place {
  readonly id: string
  /** The page of a task. */
  urlOf(ref: Ref): string
}

interface ParkedProps {
  readonly place: Place
  readonly spool: SpoolSnapshot
  readonly groups: readonly ParkedGroup[]
  readonly nowMs: number
}

/** What keeps due tasks from running, and which ones. */
export function Parked({ place, spool: { tasks, paused }, groups, nowMs }: ParkedProps) {
  return (
    <>
      <section class="card" aria-labelledby="reasons">
        <h2 id="reasons">By reason and name</h2>
        <Table
          name="Parked tasks by reason and name"
          columns={[
            { title: 'Reason', cell: ({ reason }) => reason },
            { title: 'Name', cell: ({ name = '' }) => name },
            { title: 'Tasks', isNumber: true, cell: group => <Count group={group} id={place.id} /> },
            { title: 'The first', cell: group => <First group={group} place={place} /> },
            { title: 'What it means', cell: ({ reason }) => MEANINGS[reason] },
          ]}
          rows={groups}
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

/** To all of them. */
function Count({ group: { reason, name, count }, id }: { group: ParkedGroup; id: string }) {
  return <a href={spoolHref(id, 'parked', { reason, name })}>{countText(count)}</a>
}

function First({ group, place }: { group: ParkedGroup; place: Place }) {
  return (
    <>
      {group.tasks.map((ref, i) => (
        <>
          {i > 0 && ' '}
          <a class="path" href={place.urlOf(ref)}>
            {shortName(printable(displayName(baseName(ref))))}
          </a>
        </>
      ))}
    </>
  )
}
