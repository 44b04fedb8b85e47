import type { SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import { sumOf } from '../models/counts.js'
import type { SpoolHistory } from '../models/history.js'
import { Chart } from './chart.js'
import { spoolHref } from './links.js'
import { Tiles, useLook } from './parts.js'
import { countText, percentText, rateText, spanText } from './text.js'

/** Returns a count, with a `+` if it is a lower bound. */
function boundText(count: number, isWhole: boolean): string {
  return isWhole ? countText(count) : `${countText(count)}+`
}

/** The figures of one spool. */
export function SpoolTiles({ id, spool }: { id: string; spool: SpoolSnapshot }) {
  const { nowMs } = useLook()
  const { tasks, dead, records, processes, rates } = spool
  const { oldestDueMs, unseen } = tasks
  const oldest = oldestDueMs === null ? [] : [`oldest ${spanText(Math.max(0, nowMs - oldestDueMs))}`]
  const more = unseen === 0 ? [] : [`${countText(unseen)} not looked at`]
  const notes = [...oldest, ...more]
  const failed = rates.failedShare === null ? {} : { note: `${percentText(rates.failedShare)} failed` }
  return (
    <Tiles
      tiles={[
        {
          label: 'Due',
          value: boundText(tasks.due, tasks.isWhole),
          href: spoolHref(id, 'waiting'),
          ...(notes.length === 0 ? {} : { note: notes.join(', ') }),
        },
        { label: 'Running', value: countText(tasks.running), href: spoolHref(id, 'running') },
        {
          label: 'Waiting',
          value: countText(tasks.later - tasks.held),
          href: spoolHref(id, 'waiting', { show: 'later' }),
        },
        { label: 'Parked', value: countText(sumOf(tasks.parked)), href: spoolHref(id, 'parked') },
        {
          label: 'Failed or held',
          value: boundText(records.count, records.isWhole),
          href: spoolHref(id, 'retrying'),
        },
        { label: 'Dead', value: boundText(dead.count, dead.isWhole), href: spoolHref(id, 'dead') },
        { label: 'Done', value: rateText(rates.done.m1), ...failed },
        {
          label: 'Workers',
          value: `${processes.present} of ${processes.size.maximum}`,
          href: spoolHref(id, 'workers'),
        },
      ]}
    />
  )
}

/** Throughput, backlog and processes of the last hour. */
export function SpoolCharts({ id, history: { samples } }: { id: string; history: SpoolHistory }) {
  const times = samples.map(({ atMs }) => atMs)
  return (
    <div class="charts">
      <Chart
        id={`${id}-rate`}
        title="Runs per second"
        times={times}
        isRate
        series={[
          { name: 'done', values: samples.map(({ done }) => done) },
          { name: 'failed', values: samples.map(({ failed }) => failed) },
        ]}
      />
      <Chart
        id={`${id}-tasks`}
        title="Tasks"
        times={times}
        series={[
          { name: 'due', values: samples.map(({ due }) => due) },
          { name: 'not looked at', values: samples.map(({ unseen }) => unseen) },
          { name: 'waiting', values: samples.map(({ waiting }) => waiting) },
        ]}
      />
    </div>
  )
}
