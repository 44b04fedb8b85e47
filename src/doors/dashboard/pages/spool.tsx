import { describePauses, type Pause } from '../../../base/task/pause.js'
import type { Distribution, SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import type { PageContext } from '../context.js'
import type { SpoolHistory } from '../models/history.js'
import { ActionForm } from '../views/actions.js'
import { spoolHref } from '../views/links.js'
import { Card, Facts, Field, Table, useLook, When } from '../views/parts.js'
import { SpoolCharts, SpoolTiles } from '../views/spool-card.js'
import { bytesText, countOf, countText, microsText, percentText, rateText, spanText } from '../views/text.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** The page of one spool in figures. */
export async function spoolPage(context: PageContext, params: Params) {
  const at = await spoolScene(context, params)
  const { place, spool } = at
  const path = spoolHref(place.id, 'spool')
  const source = "From the daemon's snapshot; no file of the spool is opened."
  return framed(
    context,
    at,
    { page: 'spool', title: 'Spool', source, isLive: true },
    <Spool id={place.id} spool={spool} history={context.daemon.history.of(place.directory)} />,
    <div class="actions">
      <PauseForms at={path} pauses={spool.paused.pauses} />
      <EnqueueForm at={path} />
    </div>,
  )
}

interface SpoolProps {
  readonly id: string
  readonly spool: SpoolSnapshot
  readonly history: SpoolHistory
}

function Spool({ id, spool, history }: SpoolProps) {
  return (
    <>
      <section class="card" aria-label="Figures">
        <SpoolTiles id={id} spool={spool} />
        <SpoolCharts id="chart" history={history} />
      </section>
      <Card id="runs" title="Runs">
        <Runs spool={spool} />
      </Card>
      {spool.tasks.priorities.length > 0 && (
        <Card id="priorities" title="By priority">
          <Table
            name="Due and unseen tasks by priority"
            columns={[
              { title: 'Priority', cell: ({ priority }) => priority ?? 'none' },
              { title: 'Due or unseen', isNumber: true, cell: ({ due }) => countText(due) },
            ]}
            rows={spool.tasks.priorities}
            empty=""
          />
        </Card>
      )}
      <Card id="directory" title="Directory">
        <Directory spool={spool} />
      </Card>
    </>
  )
}

function Runs({ spool: { rates, times, totals } }: { spool: SpoolSnapshot }) {
  const rate = ({ m1, m5, m15 }: { m1: number; m5: number; m15: number }) =>
    `${rateText(m1)} over 1 min, ${rateText(m5)} over 5 min, ${rateText(m15)} over 15 min`
  const spread = ({ count, p50Micros, p95Micros, p99Micros }: Distribution) =>
    count === 0
      ? null
      : `half within ${microsText(p50Micros)}, 95 % within ${microsText(p95Micros)}, 99 % within ${microsText(p99Micros)}`
  return (
    <Facts
      facts={[
        ['Done', rate(rates.done)],
        ['Failed', rate(rates.failed)],
        [
          'Failed share',
          rates.failedShare === null ? null : `${percentText(rates.failedShare)} of the last 5 min`,
        ],
        ['Run time', spread(times.ran)],
        ['Wait', spread(times.waited)],
        [
          'Since the start',
          `${countText(totals.done)} done, ${countText(totals.retried)} retried, ${countText(totals.errors)} with an error, ` +
            `${countOf(totals.crashes, 'crash', 'crashes')}, ${countText(totals.buried + totals.setAside)} buried`,
        ],
      ]}
    />
  )
}

function Directory({ spool }: { spool: SpoolSnapshot }) {
  const { directory, disk, look, paused, tasks, leadership } = spool
  return (
    <Facts
      facts={[
        ['Path', <code>{directory}</code>],
        ['Paused', paused.pauses.length > 0 || paused.fault !== undefined ? describePauses(paused) : 'no'],
        [
          'Stored',
          tasks.stored === null
            ? 'not counted yet'
            : `${countOf(tasks.stored, 'task')}${tasks.countedAtMs === null ? '' : ', as of the last count'}`,
        ],
        ['Next due', tasks.nextDueMs === null ? null : <When ms={tasks.nextDueMs} />],
        [
          'Disk',
          disk === null
            ? 'unknown'
            : `${bytesText(disk.freeBytes)} of ${bytesText(disk.totalBytes)} free, ${countText(disk.freeInodes)} inodes`,
        ],
        [
          'New tasks',
          look === null
            ? 'the engine is told of each'
            : `${HINTS[look.hints]}; looks at all names every ${spanText(look.everyMs)}, the last time in ${spanText(look.lastFullMs)}`,
        ],
        ['Schedules', leadership === null ? null : `this daemon is ${leadership}`],
      ]}
    />
  )
}

const HINTS = {
  events: 'the system reports them',
  poll: 'looked for every second, because other hosts may store them',
  none: 'found when all names are listed',
} as const

interface PauseProps {
  /** The path of the spool. */
  readonly at: string
  readonly pauses: readonly Pause[]
}

/** The forms that pause the spool, or its tasks with one key and value, and that resume all. */
function PauseForms({ at, pauses }: PauseProps) {
  const { viewer } = useLook()
  return (
    <>
      {viewer.may('pause') && (
        <details class="confirm">
          <summary class="button">Pause…</summary>
          <p>What runs goes on. Nothing else starts until the time is over, or until the spool is resumed.</p>
          <ActionForm name="pause" at={at} next={at}>
            {viewer.mayReadPayload && (
              <Field name="key" label="Only tasks with this key and value" hint="kind=report" />
            )}
            <Field name="until" label="Until" hint="+1h, 2026-12-24 08:00" />
          </ActionForm>
        </details>
      )}
      {pauses.length > 0 && (
        <ActionForm name="resume" at={at} next={at} label="Resume all" fields={{ all: 'on' }} />
      )}
    </>
  )
}

/** The form that stores a new task. */
function EnqueueForm({ at }: { at: string }) {
  if (!useLook().viewer.may('enqueue')) return null
  return (
    <details class="confirm">
      <summary class="button">Enqueue a task…</summary>
      <ActionForm name="enqueue" at={at} next={at}>
        <label class="wide">
          Keys and values, as JSON
          <textarea name="vars" rows={4} spellcheck={false} required placeholder='{"to": "joe"}' />
        </label>
        <label class="wide">
          Body
          <textarea name="body" rows={4} spellcheck={false} />
        </label>
        <Field name="at" label="Not before" hint="+1h, 2026-12-24 08:00" />
        <Field name="priority" label="Priority" hint="5" />
      </ActionForm>
    </details>
  )
}
