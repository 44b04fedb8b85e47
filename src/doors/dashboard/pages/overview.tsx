import { isWholePaused } from '../../../base/task/pause.js'
import type { DaemonSnapshot, SpoolSnapshot } from '../../../runtime/stats/snapshot.js'
import type { PageContext } from '../context.js'
import { type Concern, concernsOf } from '../models/attention.js'
import type { History } from '../models/history.js'
import type { ReadableSpool } from '../readable-spools.js'
import { spoolHref } from '../views/links.js'
import { Card } from '../views/parts.js'
import { SpoolCharts, SpoolTiles } from '../views/spool-card.js'
import { framed } from './framed.js'

/** The page of what needs a look, and of all spools of the daemon in figures. */
export async function overviewPage(context: PageContext) {
  const { daemon, spools } = context
  const snapshot = await daemon.snapshot()
  const source = "From the daemon's snapshot; charts have the last hour, since the dashboard was started."
  return framed(
    context,
    { snapshot, place: null },
    { page: 'overview', title: 'Overview', source, isLive: true },
    <Overview snapshot={snapshot} history={daemon.history} places={spools.all} />,
  )
}

interface OverviewProps {
  readonly snapshot: DaemonSnapshot
  readonly history: History
  readonly places: readonly ReadableSpool[]
}

/** Returns the name of a spool in URLs. Empty for a spool that came with a reload: it has no pages yet. */
const idOf = (places: readonly ReadableSpool[], directory: string) =>
  places.find(each => each.directory === directory)?.id ?? ''

/** What needs a look, and then each spool in figures. */
function Overview({ snapshot, history, places }: OverviewProps) {
  return (
    <>
      <Attention concerns={concernsOf(snapshot)} places={places} />
      {snapshot.spools.map((spool, i) => (
        <Card id={`spool-${i}`} title={<Name spool={spool} id={idOf(places, spool.directory)} />}>
          <SpoolTiles id={idOf(places, spool.directory)} spool={spool} />
          <SpoolCharts id={`chart-${i}`} history={history.of(spool.directory)} />
        </Card>
      ))}
    </>
  )
}

function Name({ spool: { directory, paused }, id }: { spool: SpoolSnapshot; id: string }) {
  const badge = isWholePaused(paused) ? 'paused' : paused.pauses.length > 0 ? 'partly paused' : undefined
  return (
    <>
      <a href={spoolHref(id, 'spool')}>{directory}</a>{' '}
      {badge !== undefined && <span class="badge warn">{badge}</span>}
    </>
  )
}

const TONE = { error: 'bad', warning: 'warn', info: '' } as const
const WORD = { error: 'Problem', warning: 'Look at', info: 'Note' } as const

function Attention({ concerns, places }: { concerns: readonly Concern[]; places: readonly ReadableSpool[] }) {
  return (
    <Card id="attention" title="What needs a look">
      {concerns.length === 0 ? (
        <p class="good">Nothing: no dead letters, no late tasks, and room on the disk.</p>
      ) : (
        <ul class="concerns">
          {concerns.map(({ level, text, page, spool }) => (
            <li>
              <span class={`badge ${TONE[level]}`}>{WORD[level]}</span>{' '}
              <a href={spoolHref(idOf(places, spool), page)}>
                {places.length === 1 ? text : `${spool}: ${text}`}
              </a>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}
