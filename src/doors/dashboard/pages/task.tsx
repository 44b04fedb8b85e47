import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import type { PageContext, Raw } from '../context.js'
import { taskDetail } from '../models/task-detail.js'
import { PageError } from '../page-error.js'
import { TaskActions } from '../views/actions.js'
import { EditForm } from '../views/edit-form.js'
import { type SpoolPage, spoolHref } from '../views/links.js'
import { Task } from '../views/task.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** Everything that is known of one task. */
export async function taskPage(context: PageContext, params: Params) {
  const { snapshot, place } = await spoolScene(context, params)
  const { viewer } = context
  const task = await place.task(params.ref ?? '')
  const [at, nowMs] = [place.urlOf(task.ref), snapshot.atMs]
  const { mayReadPayload } = viewer
  const detail = await taskDetail(task, {
    mayReadPayload,
    nowMs,
    readBody: most => place.body(task, most),
  })
  const next = spoolHref(place.id, listingOf(task))
  const { payload } = detail
  const canEdit = viewer.may('edit') && payload !== null && (task.state === 'held' || task.state === 'dead')
  return framed(
    context,
    snapshot,
    place,
    {
      page: 'task',
      title: detail.row.kind ?? detail.row.name,
      source: place.isOnRedis
        ? 'From the job of the task in Redis.'
        : 'From the file of the task, its record or the letter beside it, and the table of locks; the daemons say whether it is parked.',
    },
    <>
      <Task
        detail={detail}
        nowMs={nowMs}
        bodyHref={payload !== null && payload.bodyBytes > 0 ? `${at}/body` : null}
        actions={<TaskActions actor={viewer} at={at} state={task.state} next={next} />}
      />
      {canEdit && <EditForm actor={viewer} at={at} next={next} task={task} />}
    </>,
  )
}

/** An act may end a task, and with it its page: afterwards one is where it was listed. */
function listingOf({ state }: TaskView): SpoolPage {
  switch (state) {
    case 'dead':
    case 'held':
    case 'parked':
    case 'retrying':
    case 'running':
      return state
    default:
      return 'waiting'
  }
}

/** The body, as a file to be saved: it is never shown as what it says it is. */
export async function bodyPage(context: PageContext, params: Params): Promise<Raw> {
  const place = context.spools.get(params.spool ?? '')
  const task = await place.task(params.ref ?? '')
  if (task.file.vars === undefined) throw new PageError(404, 'it is no packet, and has no body')
  return { type: 'application/octet-stream', body: await place.body(task), filename: 'body.bin' }
}
