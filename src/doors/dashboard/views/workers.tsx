import type { SpoolSnapshot, WorkerSnapshot } from '../../../runtime/stats/snapshot.js'
import type { SpoolHistory } from '../models/history.js'
import { Chart } from './chart.js'
import { type Column, Facts, Table, When } from './parts.js'
import { bytesText, countText, percentText, spanText } from './text.js'

interface WorkersProps {
  readonly spool: SpoolSnapshot
  readonly history: SpoolHistory
  readonly nowMs: number
}

/** The processes of a spool, and why there are as many. */
export function Workers({ spool: { processes }, history: { samples, changes }, nowMs }: WorkersProps) {
  const { wanted, present, delayed, size, workers } = processes
  return (
    <>
      <section class="card" aria-labelledby="pool">
        <h2 id="pool">Pool</h2>
        <Facts
          facts={[
            ['Processes', `${present} present, ${wanted} wanted, from ${size.minimum} to ${size.maximum}`],
            ['Started later', delayed === 0 ? null : `${delayed}, because others failed`],
            ['Sized by', size.isByHand ? 'hand' : (size.algorithm ?? 'the configuration: always as many')],
            ['Reason', size.reason],
          ]}
        />
        <Chart
          id="chart-pool"
          title="Processes"
          times={samples.map(({ atMs }) => atMs)}
          series={[
            { name: 'present', values: samples.map(sample => sample.present) },
            { name: 'wanted', values: samples.map(sample => sample.wanted) },
            { name: 'running tasks', values: samples.map(sample => sample.running) },
          ]}
        />
      </section>
      <section class="card" aria-labelledby="workers">
        <h2 id="workers">Workers</h2>
        <Table name="Workers" columns={columnsOf(nowMs)} rows={workers} empty="There is no worker." />
      </section>
      <section class="card" aria-labelledby="changes">
        <h2 id="changes">Changes of their number</h2>
        <Table
          name="Changes of the number of workers"
          columns={[
            { title: 'When', cell: ({ atMs }) => <When ms={atMs} nowMs={nowMs} /> },
            { title: 'From', isNumber: true, cell: ({ from }) => String(from) },
            { title: 'To', isNumber: true, cell: ({ to }) => String(to) },
            { title: 'Reason', cell: ({ reason }) => reason },
          ]}
          rows={changes}
          empty="None since the dashboard was started."
        />
      </section>
    </>
  )
}

function columnsOf(nowMs: number): Array<Column<WorkerSnapshot>> {
  return [
    {
      title: 'Process',
      cell: ({ pid, isLone }) =>
        `${pid === 0 ? 'in the daemon' : pid}${isLone ? ', runs suspects alone' : ''}`,
    },
    {
      title: 'State',
      cell: ({ state }) => <span class={`badge ${state === 'ready' ? 'good' : 'warn'}`}>{state}</span>,
    },
    { title: 'Started', cell: ({ spawnedAtMs }) => <When ms={spawnedAtMs} nowMs={nowMs} /> },
    { title: 'Runs', isNumber: true, cell: ({ ran }) => countText(ran) },
    {
      title: 'Busy',
      isNumber: true,
      cell: ({ busyMs, spawnedAtMs, concurrency }) =>
        percentText(Math.min(1, busyMs / Math.max(1, nowMs - spawnedAtMs) / Math.max(1, concurrency))),
    },
    { title: 'Per task', isNumber: true, cell: ({ paceMs }) => (paceMs === null ? '' : spanText(paceMs)) },
    {
      title: 'Has',
      isNumber: true,
      cell: ({ outstanding, concurrency }) => `${outstanding} (${concurrency} at a time)`,
    },
    {
      title: 'Memory',
      isNumber: true,
      cell: ({ rssBytes }) => (rssBytes === null ? '' : bytesText(rssBytes)),
    },
  ]
}
