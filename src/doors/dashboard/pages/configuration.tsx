import { MOST_SETTINGS, readConfiguration } from '../../../formats/control/configuration.js'
import { hasRight } from '../access/rights.js'
import type { PageContext } from '../context.js'
import { Configuration } from '../views/configuration.js'
import { Settings } from '../views/settings.js'
import { countText } from '../views/text.js'
import { framed } from './framed.js'

/** What the daemon runs with; its options are for admins. */
export async function configurationPage(context: PageContext) {
  const { daemon, viewer } = context
  const snapshot = await daemon.snapshot()
  const mayReadOptions = hasRight(viewer, { role: 'admin' })
  const told = mayReadOptions ? readConfiguration(await daemon.ask('config', {})) : null
  const source =
    told === null
      ? "From the daemon's snapshot. The values of options are for admins."
      : `From the running daemon, since its last reload: ${told.isCut ? `the first ${countText(MOST_SETTINGS)}` : 'all'} options that have a value. No file is read. What may be secret is hidden.`
  return framed(
    context,
    snapshot,
    null,
    { page: 'configuration', title: 'Configuration', source },
    <>
      <Configuration snapshot={snapshot} />
      {told !== null && <Settings told={told} mayReadCode={viewer.mayReadPayload} />}
    </>,
  )
}
