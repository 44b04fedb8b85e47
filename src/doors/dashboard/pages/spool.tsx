import type { PageContext } from '../context.js'
import { spoolHref } from '../views/links.js'
import { Spool } from '../views/spool.js'
import { EnqueueForm, PauseForms, ScaleForms } from '../views/spool-forms.js'
import { Workers } from '../views/workers.js'
import { framed, spoolScene } from './framed.js'

type Params = Readonly<Record<string, string>>

/** One spool in figures. */
export async function spoolPage(context: PageContext, params: Params) {
  const { snapshot, place, spool } = await spoolScene(context, params)
  const { viewer, daemon } = context
  const at = spoolHref(place.id, 'spool')
  const forms = { actor: viewer, at, next: at }
  const source = "From the daemon's snapshot; no file of the spool is opened."
  return framed(
    context,
    snapshot,
    place,
    { page: 'spool', title: 'Spool', source, isLive: true },
    <Spool id={place.id} spool={spool} history={daemon.history.of(place.directory)} nowMs={snapshot.atMs} />,
    <div class="actions">
      <PauseForms {...forms} pauses={spool.paused.pauses} />
      <EnqueueForm {...forms} />
    </div>,
  )
}

/** The processes of a spool, and why there are as many. */
export async function workersPage(context: PageContext, params: Params) {
  const { snapshot, place, spool } = await spoolScene(context, params)
  const { viewer, daemon } = context
  const { isByHand } = spool.processes.size
  const source =
    "From the daemon's snapshot; the chart and the changes are of the last hour, since the dashboard was started."
  return framed(
    context,
    snapshot,
    place,
    { page: 'workers', title: 'Workers', source, isLive: true },
    <Workers spool={spool} history={daemon.history.of(place.directory)} nowMs={snapshot.atMs} />,
    <ScaleForms
      actor={viewer}
      at={spoolHref(place.id, 'spool')}
      next={spoolHref(place.id, 'workers')}
      isByHand={isByHand}
    />,
  )
}
