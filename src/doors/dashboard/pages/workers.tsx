import type { SpoolSnapshot, WorkerSnapshot } from '../../../runtime/stats/snapshot.js'
import type { PageContext } from '../context.js'
import { MOST_CHANGES, type SpoolHistory } from '../models/history.js'
import { ActionForm } from '../views/actions.js'
import { Chart } from '../views/chart.js'
import { spoolHref } from '../views/links.js'
import { Card, type Column, Facts, Field, Table, useLook, When } from '../views/parts.js'
import { bytesText, countText, percentText, spanText } from '../views/text.js'
import { framed, spoolScene } from './framed.js'

/** The page of the processes of a spool, and of why there are as many. */
export async function workersPage(context: PageContext, params: Readonly<Record<string, string>>) {
  const at = await spoolScene(context, params)
  const { place, spool } = at
  const source = `From the daemon's snapshot; since the dashboard was started, the chart has the last hour, and the table the last ${MOST_CHANGES} changes.`
  return framed(
    context,
    at,
    { page: 'workers', title: 'Workers', source, isLive: true },
    <Workers spool={spool} history={context.daemon.history.of(place.directory)} />,
    <ScaleForms id={place.id} isByHand={spool.processes.size.isByHand} />,
  )
}

interface WorkersProps {
  readonly spool: SpoolSnapshot
  readonly history: SpoolHistory
}

function Workers({ spool: { processes }, history: { samples, changes } }: WorkersProps) {
  const { nowMs } = useLook()
  const { wanted, present, delayed, size, workers } = processes
  return (
    <>
      <Card id="pool" title="Pool">
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
      </Card>
      <Card id="workers" title="Workers">
        <Table name="Workers" columns={columnsOf(nowMs)} rows={workers} empty="There is no worker." />
      </Card>
      <Card id="changes" title="Changes of their number">
        <Table
          name="Changes of the number of workers"
          columns={[
            { title: 'When', cell: ({ atMs }) => <When ms={atMs} /> },
            { title: 'From', isNumber: true, cell: ({ from }) => String(from) },
            { title: 'To', isNumber: true, cell: ({ to }) => String(to) },
            { title: 'Reason', cell: ({ reason }) => reason },
          ]}
          rows={changes}
          empty="None since the dashboard was started."
        />
      </Card>
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
    { title: 'Started', cell: ({ spawnedAtMs }) => <When ms={spawnedAtMs} /> },
    { title: 'Runs', isNumber: true, cell: ({ ran }) => countText(ran) },
    {
      title: 'Busy',
      isNumber: true,
      cell: ({ busyMs, spawnedAtMs }) => percentText(Math.min(1, busyMs / Math.max(1, nowMs - spawnedAtMs))),
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

/** The forms that set how many processes there should be. */
function ScaleForms({ id, isByHand }: { id: string; isByHand: boolean }) {
  if (!useLook().viewer.may('scale')) return null
  const form = { name: 'scale', at: spoolHref(id, 'spool'), next: spoolHref(id, 'workers') } as const
  const scale = (to: string, label: string) => <ActionForm {...form} label={label} fields={{ to }} />
  return (
    <div class="actions with-fields">
      {scale('+1', 'One process more')}
      {scale('-1', 'One process less')}
      {isByHand && scale('auto', 'Leave it to the algorithm')}
      <ActionForm {...form} label="Set the number">
        <Field name="to" label="Processes" hint="4" />
      </ActionForm>
    </div>
  )
}
