import { isUtf8 } from 'node:buffer'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import { HIDDEN } from '../../../formats/protocol/hide.js'
import { toPairs } from '../../../formats/protocol/vars.js'
import type { PageContext, Raw } from '../context.js'
import { taskDetail } from '../models/task-detail.js'
import { PageError } from '../page-error.js'
import { ActionForm, type Actor, TaskActions } from '../views/actions.js'
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

interface EditProps {
  readonly actor: Actor
  readonly at: string
  readonly next: string
  readonly task: TaskView
}

/** The keys of a task, to be changed: it is stored again, and this one removed. The body stays. */
function EditForm({ actor, at, next, task }: EditProps) {
  const pairs = task.file.vars === undefined ? [] : toPairs(task.file.vars)
  const isText = pairs.every(pair => pair.every(part => isUtf8(part)))
  const isHidden = pairs.some(([, value]) => value.includes(HIDDEN))
  if (!isText || isHidden) return null // what is no text, or hidden, would come back changed
  const texts = pairs.map(([key, value]) => [key.toString(), value.toString()] as const)
  const keys = new Set(texts.map(([key]) => key))
  const vars = JSON.stringify(keys.size === texts.length ? Object.fromEntries(texts) : texts, null, 2)
  return (
    <section class="card" aria-labelledby="edit">
      <h2 id="edit">Edit and try again</h2>
      <p class="quiet">
        The changed task is stored as a new one, which runs at once, and this one is removed. Its body stays.
      </p>
      <ActionForm name="edit" actor={actor} at={at} next={next} label="Store the changed task">
        <label for="vars">Keys and values, as JSON</label>
        <textarea id="vars" name="vars" rows={10} spellcheck={false} required>
          {vars}
        </textarea>
      </ActionForm>
    </section>
  )
}
