import type { Child } from 'hono/jsx'
import type { ShownBytes } from '../models/shown-bytes.js'
import type { Payload, TaskDetail } from '../models/task-detail.js'
import { Facts, StateBadge, Table, When } from './parts.js'
import { bytesText, countOf, isoText } from './text.js'

interface TaskProps {
  readonly detail: TaskDetail
  readonly nowMs: number
  /** Where its whole body can be downloaded; null: nowhere. */
  readonly bodyHref: string | null
  readonly actions: Child
}

/** Everything that is known of one task. */
export function Task({ detail, nowMs, bodyHref, actions }: TaskProps) {
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
            ['Due', row.state === 'dead' ? null : <When ms={row.dueAtMs} nowMs={nowMs} />],
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
      <section class="card" aria-labelledby="history">
        <h2 id="history">What happened</h2>
        <ol class="timeline">
          {moments.map(({ atMs, what, detail: more }) => (
            <li>
              <When ms={atMs} nowMs={nowMs} /> <span class="quiet">({isoText(atMs)})</span>: {what}
              {more !== null && <div class="path">{more}</div>}
            </li>
          ))}
        </ol>
      </section>
      {lastError !== null && (
        <section class="card" aria-labelledby="error">
          <h2 id="error">Last error</h2>
          <pre tabindex={0}>{lastError}</pre>
        </section>
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

function Content({
  payload: { pairs, body, bodyBytes },
  bodyHref,
}: {
  payload: Payload
  bodyHref: string | null
}) {
  return (
    <>
      <section class="card" aria-labelledby="keys">
        <h2 id="keys">Keys</h2>
        <Table
          name="Keys of the packet"
          columns={[
            { title: 'Key', cell: ({ key }) => <code>{key}</code> },
            { title: 'Value', cell: ({ value }) => <Bytes bytes={value} /> },
          ]}
          rows={pairs}
          empty="The packet has no keys."
        />
      </section>
      {bodyBytes > 0 && (
        <section class="card" aria-labelledby="body">
          <h2 id="body">Body</h2>
          {body === null ? <p>The task has ended.</p> : <Bytes bytes={body} />}
          {bodyHref !== null && (
            <p>
              <a
                href={bodyHref}
              >{`Download the ${bodyBytes > MOST_DOWNLOADED ? 'first MiB of the ' : ''}body, ${bytesText(bodyBytes)}`}</a>
            </p>
          )}
        </section>
      )}
    </>
  )
}

/** More is not sent: the file itself lies in the spool. */
const MOST_DOWNLOADED = 1024 * 1024

const KINDS = { text: 'text', json: 'JSON', hex: 'bytes that are no text' } as const
/** A short text needs no scrolling. */
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
