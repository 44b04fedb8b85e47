import type { Parked as WhyParked } from '../../../base/task/parked.js'
import { describeGroup, MOST_PARKED_NAMED, readParkedGroups } from '../../../engines/control/parked-tasks.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import type { PageContext } from '../context.js'
import { PAGE_SIZE, pageOf } from '../models/listings.js'
import { Parked } from '../views/parked.js'
import { FAILED, PARKED } from '../views/tasks.js'
import { countOf, countText } from '../views/text.js'
import { framed, fromIn, type SpoolScene, spoolScene } from './framed.js'
import { listing } from './listing.js'

type Params = Readonly<Record<string, string>>

/** Of each reason and name, where all are shown. */
const NAMED_EACH = 5

/** What keeps due tasks from running; with a reason, and perhaps a name, in its query: the tasks of these. */
export async function parkedPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const reason = context.query.get('reason')
  return reason === null ? groupsPage(context, at) : groupPage(context, at, reason)
}

async function groupsPage(context: PageContext, { snapshot, place, spool }: SpoolScene) {
  const groups = readParkedGroups(
    await context.daemon.ask('parked', { spool: place.directory, limit: NAMED_EACH }),
  )
  const source = `From the daemon, which names the first ${NAMED_EACH} tasks of each reason and name here, of 200 of these; no file is opened.`
  return framed(
    context,
    snapshot,
    place,
    { page: 'parked', title: 'Parked', source, isLive: true },
    <Parked place={place} spool={spool} groups={groups} nowMs={snapshot.atMs} />,
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
  const shown = pageOf(
    ref => group && parkedBy(look(ref), { reason: group.reason, detail: describeGroup(group) }),
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

/** The daemon says that it is parked; its file alone says that it is due. */
function parkedBy(task: TaskView | undefined, parked: WhyParked): TaskView | undefined {
  return task?.state === 'due' ? { ...task, state: 'parked', parked } : task
}
