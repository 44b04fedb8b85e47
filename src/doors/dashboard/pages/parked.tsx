import { printable } from '../../../base/printable.js'
import type { ParkedGroup, ParkReason, Parked as WhyParked } from '../../../base/task/parked.js'
import { describePair } from '../../../base/task/pause.js'
import { baseName, displayName } from '../../../base/task/ref.js'
import {
  describeGroup,
  MOST_GROUPS,
  MOST_PARKED_NAMED,
  readParkedGroups,
} from '../../../engines/control/parked-tasks.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import type { SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import type { PageContext } from '../context.js'
import { PAGE_SIZE, pageOf } from '../models/listings.js'
import type { ReadableSpool } from '../readable-spools.js'
import { spoolHref } from '../views/links.js'
import { Card, Table, When } from '../views/parts.js'
import { countOf, countText, shortName } from '../views/text.js'
import { framed, fromIn, type SpoolScene, spoolScene } from './framed.js'
import { FAILED, listing, PARKED } from './listing.js'
import { listed } from './tasks.js'

type Params = Readonly<Record<string, string>>

/** On the page of all groups, this many tasks of each reason and name are named. */
const NAMED_EACH = 5

/** The page of what keeps due tasks from running. If its query has a reason, and maybe a name: the page of those tasks. */
export async function parkedPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  if (at.place.isOnRedis) return listed(context, at, 'parked')
  const reason = context.query.get('reason')
  return reason === null ? groupsPage(context, at) : groupPage(context, at, reason)
}

async function groupsPage(context: PageContext, at: SpoolScene) {
  const { place, spool } = at
  const groups = readParkedGroups(
    await context.daemon.ask('parked', { spool: place.directory, limit: NAMED_EACH }),
  )
  const source = `From the daemon: at most ${MOST_GROUPS} reasons and names, with the first ${NAMED_EACH} tasks of each; no file is opened.`
  return framed(
    context,
    at,
    { page: 'parked', title: 'Parked', source, isLive: true },
    <Parked place={place} spool={spool} groups={groups} />,
  )
}

async function groupPage(context: PageContext, at: SpoolScene, reason: string) {
  const { place } = at
  const name = context.query.get('name')
  const from = fromIn(context)
  const query = { reason, ...(name === null ? {} : { name }) }
  const args = { spool: place.directory, limit: PAGE_SIZE + 1, from, ...query }
  const [group] = readParkedGroups(await context.daemon.ask('parked', args))
  const refs = group?.tasks ?? []
  const look = await place.look()
  const shown = await pageOf(
    async ref => group && parkedBy(await look(ref), { reason: group.reason, detail: describeGroup(group) }),
    refs.slice(0, PAGE_SIZE),
    0,
  )
  return listing(
    context,
    at,
    { ...shown, from, next: refs.length > PAGE_SIZE ? from + PAGE_SIZE : null },
    {
      page: 'parked',
      title: `Parked: ${name ?? reason}`,
      source: `From the daemon, which has parked ${countOf(group?.count ?? 0, 'task')} for this and can name ${countText(MOST_PARKED_NAMED)} of them; the files of this page are opened.`,
      empty: 'No such task is parked now.',
      query,
      columns: [FAILED, PARKED],
    },
  )
}

/** Returns a due task as parked, because the daemon says so: its file alone says that it is due. Other tasks stay as they are. */
function parkedBy(task: TaskView | undefined, parked: WhyParked): TaskView | undefined {
  return task?.state === 'due' ? { ...task, state: 'parked', parked } : task
}

const MEANINGS: Readonly<Record<ParkReason, string>> = {
  alone: 'They died with others, and run one at a time, in a worker of their own.',
  crashed: 'They have crashed their process, and run when no other task is due.',
  slot: 'As many of their name run as may run at a time.',
  paused: 'A person has paused them.',
  'unknown-name': 'No handler knows the name of the task; they run after a reload with one that does.',
}

interface ParkedProps {
  readonly place: ReadableSpool
  readonly spool: SpoolSnapshot
  readonly groups: readonly ParkedGroup[]
}

/** What keeps due tasks from running, and which ones. */
function Parked({ place, spool: { tasks, paused }, groups }: ParkedProps) {
  return (
    <>
      <Card id="reasons" title="By reason and name">
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
      </Card>
      <Card id="slots" title="Queues for slots">
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
      </Card>
      <Card id="pauses" title="Pauses">
        <Table
          name="Pauses"
          columns={[
            { title: 'Paused', cell: ({ pair }) => describePair(pair) },
            { title: 'Since', cell: ({ sinceMs }) => <When ms={sinceMs} /> },
            { title: 'Until', cell: ({ untilMs }) => (untilMs === null ? 'resumed' : <When ms={untilMs} />) },
          ]}
          rows={paused.pauses}
          empty="Nothing is paused."
        />
      </Card>
    </>
  )
}

/** The number of tasks in a group, as a link to all of them. */
function Count({ group: { reason, name, count }, id }: { group: ParkedGroup; id: string }) {
  return <a href={spoolHref(id, 'parked', { reason, name })}>{countText(count)}</a>
}

function First({ group, place }: { group: ParkedGroup; place: ReadableSpool }) {
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
