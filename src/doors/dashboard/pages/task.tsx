import { isUtf8 } from 'node:buffer'
import type { Child } from 'hono/jsx'
import { printableJson } from '../../../base/printable.js'
import type { TaskView } from '../../../engines/spool/admin/task-view.js'
import { HIDDEN } from '../../../formats/protocol/hide.js'
import { toPairs } from '../../../formats/protocol/vars.js'
import type { PageContext, Raw } from '../context.js'
import type { ShownBytes } from '../models/shown-bytes.js'
import { type Payload, type TaskDetail, taskDetail } from '../models/task-detail.js'
import { PageError } from '../page-error.js'
import { MOST_BODY_BYTES } from '../readable-spools.js'
import { ActionForm, TaskActions } from '../views/actions.js'
import { type SpoolPage, spoolHref } from '../views/links.js'
import { Card, Facts, StateBadge, Table, When } from '../views/parts.js'
import { bytesText, countOf, isoText } from '../views/text.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** The page of everything that is known of one task. */
export async function taskPage(context: PageContext, params: Params) {
  const scene = await spoolScene(context, params)
  const { snapshot, place } = scene
  const { viewer } = context
  const task = await place.task(params.ref ?? '')
  const at = place.urlOf(task.ref)
  const detail = await taskDetail(task, {
    mayReadPayload: viewer.mayReadPayload,
    nowMs: snapshot.atMs,
    readBody: most => place.body(task, most),
  })
  const next = spoolHref(place.id, listingOf(task))
  const { payload } = detail
  const canEdit = viewer.may('edit') && payload !== null && (task.state === 'held' || task.state === 'dead')
  return framed(
    context,
    scene,
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
        bodyHref={payload !== null && payload.bodyBytes > 0 ? `${at}/body` : null}
        actions={<TaskActions at={at} state={task.state} next={next} />}
      />
      {canEdit && <EditForm at={at} next={next} task={task} />}
    </>,
  )
}

/** Returns the listing that a task is in. It follows an act, because the act may end the task, and with it the task's page. */
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

/** Returns the body as a download. Its type says nothing of the content, so that a browser never shows a body as a page. */
export async function bodyPage(context: PageContext, params: Params): Promise<Raw> {
  const place = context.spools.get(params.spool ?? '')
  const task = await place.task(params.ref ?? '')
  if (task.file.vars === undefined) throw new PageError(404, 'it is no packet, and has no body')
  return { type: 'application/octet-stream', body: await place.body(task), filename: 'body.bin' }
}

interface EditProps {
  readonly at: string
  readonly next: string
  readonly task: TaskView
}

/** The form to change a task's keys. The changed task is stored as a new one, with the same body, and this one is removed. */
function EditForm({ at, next, task }: EditProps) {
  const pairs = task.file.vars === undefined ? [] : toPairs(task.file.vars)
  const isText = pairs.every(pair => pair.every(part => isUtf8(part)))
  const isHidden = pairs.some(([, value]) => value.includes(HIDDEN))
  if (!isText || isHidden) return null // bytes that are no text, and hidden values, would come back changed
  const texts = pairs.map(([key, value]) => [key.toString(), value.toString()] as const)
  const keys = new Set(texts.map(([key]) => key))
  const vars = printableJson(
    JSON.stringify(keys.size === texts.length ? Object.fromEntries(texts) : texts, null, 2),
  )
  return (
    <Card id="edit" title="Edit and try again">
      <p class="quiet">
        The changed task is stored as a new one, which runs at once, and this one is removed. Its body stays.
      </p>
      <ActionForm name="edit" at={at} next={next} label="Store the changed task">
        <label for="vars">Keys and values, as JSON</label>
        <textarea id="vars" name="vars" rows={10} spellcheck={false} required>
          {vars}
        </textarea>
      </ActionForm>
    </Card>
  )
}

interface TaskProps {
  readonly detail: TaskDetail
  /** The path where the body can be downloaded. Null: there is none to download. */
  readonly bodyHref: string | null
  readonly actions: Child
}

/** Everything that is known of one task. */
function Task({ detail, bodyHref, actions }: TaskProps) {
  const { row, fault, payload, moments, lastError, buried } = detail
  return (
    <>
      <section class="card" aria-label="State">
        <Facts
          facts={[
            ['State', <StateBadge state={row.state} />],
            ['Waits because', row.parked],
            ['Named task', row.kind],
            ['File', <code class="path">{row.name}</code>],
            ['Priority', row.priority],
            ['Due', row.state === 'dead' ? null : <When ms={row.dueAtMs} />],
            ['Size', bytesText(row.bytes)],
            [
              'Failed',
              row.attempts === 0
                ? null
                : `${countOf(row.attempts, 'time')}, ${row.crashes} of them with its process`,
            ],
            ['Why', buried === null ? null : `${row.reason}: ${buried.detail}`],
            ['Buried on', buried?.host ?? null],
            ['Handlers', buried === null || buried.handlers.length === 0 ? null : buried.handlers.join(', ')],
            ['Not a task', fault],
          ]}
        />
        {actions}
      </section>
      <Card id="history" title="What happened">
        <ol class="timeline">
          {moments.map(({ atMs, what, detail: more }) => (
            <li>
              <When ms={atMs} /> <span class="quiet">({isoText(atMs)})</span>: {what}
              {more !== null && <div class="path">{more}</div>}
            </li>
          ))}
        </ol>
      </Card>
      {lastError !== null && (
        <Card id="error" title="Last error">
          <pre tabindex={0}>{lastError}</pre>
        </Card>
      )}
      {payload === null ? (
        <p class="quiet">
          {fault === null ? 'Keys and body are for those with the right to read payloads.' : ''}
        </p>
      ) : (
        <Content payload={payload} bodyHref={bodyHref} />
      )}
    </>
  )
}

function Content({ payload, bodyHref }: { payload: Payload; bodyHref: string | null }) {
  const { pairs, body, bodyFault, bodyBytes } = payload
  return (
    <>
      <Card id="keys" title="Keys">
        <Table
          name="Keys of the packet"
          columns={[
            { title: 'Key', cell: ({ key }) => <code>{key}</code> },
            { title: 'Value', cell: ({ value }) => <Bytes bytes={value} /> },
          ]}
          rows={pairs}
          empty="The packet has no keys."
        />
      </Card>
      {bodyBytes > 0 && (
        <Card id="body" title="Body">
          {body === null ? <p>{bodyFault}</p> : <Bytes bytes={body} />}
          {bodyHref !== null && (
            <p>
              <a href={bodyHref}>
                {bodyBytes > MOST_BODY_BYTES
                  ? `Download the first ${bytesText(MOST_BODY_BYTES)} of the body`
                  : `Download the body, ${bytesText(bodyBytes)}`}
              </a>
            </p>
          )}
        </Card>
      )}
    </>
  )
}

const KINDS = { text: 'text', json: 'JSON', hex: 'bytes that are no text' } as const
/** A text of one line and at most this many characters is shown in line, because it needs no scrolling. */
const SHORT = 80

function Bytes({ bytes: { kind, text, bytes, isCut } }: { bytes: ShownBytes }) {
  if (kind === 'text' && text.length <= SHORT && !text.includes('\n')) return <code>{text}</code>
  return (
    <>
      <pre tabindex={0} class={kind === 'hex' ? 'hex' : ''}>
        {text}
      </pre>
      <span class="quiet">
        {KINDS[kind]}, {bytesText(bytes)}
        {isCut && ', the beginning is shown'}
      </span>
    </>
  )
}
