import { describePauses } from '../../../base/task/pause.js'
import type { Distribution, SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import type { SpoolHistory } from '../models/history.js'
import { Facts, Table, When } from './parts.js'
import { SpoolCharts, SpoolTiles } from './spool-card.js'
import { bytesText, countOf, countText, microsText, percentText, rateText, spanText } from './text.js'

interface SpoolProps {
  readonly id: string
  readonly spool: SpoolSnapshot
  readonly history: SpoolHistory
  readonly nowMs: number
}

export function Spool({ id, spool, history, nowMs }: SpoolProps) {
  return (
    <>
      <section class="card" aria-label="Figures">
        <SpoolTiles id={id} spool={spool} nowMs={nowMs} />
        <SpoolCharts id="chart" history={history} />
      </section>
      <section class="card" aria-labelledby="runs">
        <h2 id="runs">Runs</h2>
        <Runs spool={spool} />
      </section>
      {spool.tasks.priorities.length > 0 && (
        <section class="card" aria-labelledby="priorities">
          <h2 id="priorities">By priority</h2>
          <Table
            name="Due and unseen tasks by priority"
            columns={[
              { title: 'Priority', cell: ({ priority }) => priority ?? 'none' },
              { title: 'Due or unseen', isNumber: true, cell: ({ due }) => countText(due) },
            ]}
            rows={spool.tasks.priorities}
            empty=""
          />
        </section>
      )}
      <section class="card" aria-labelledby="directory">
        <h2 id="directory">Directory</h2>
        <Directory spool={spool} nowMs={nowMs} />
      </section>
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

function Directory({ spool, nowMs }: { spool: SpoolSnapshot; nowMs: number }) {
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
        ['Next due', tasks.nextDueMs === null ? null : <When ms={tasks.nextDueMs} nowMs={nowMs} />],
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
