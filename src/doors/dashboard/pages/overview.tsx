import type { PageContext } from '../context.js'
import { Overview } from '../views/overview.js'
import { framed } from './framed.js'

/** What needs a look, and all spools of the daemon in figures. */
export async function overviewPage(context: PageContext) {
  const { daemon, spools } = context
  const snapshot = await daemon.snapshot()
  const source = "From the daemon's snapshot; charts have the last hour, since the dashboard was started."
  return framed(
    context,
    snapshot,
    null,
    { page: 'overview', title: 'Overview', source, isLive: true },
    <Overview snapshot={snapshot} history={daemon.history} places={spools.all} />,
  )
}
