import { MOST_SETTINGS, readConfiguration } from '../../../formats/control/configuration.js'
import type { DaemonSnapshot } from '../../../runtime/stats/snapshot.js'
import { hasRight } from '../access/rights.js'
import type { PageContext } from '../context.js'
import { Facts, Table, When } from '../views/parts.js'
import { Settings } from '../views/settings.js'
import { bytesText, countOf, countText, spanText } from '../views/text.js'
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

/** The daemon, its spools and its sockets, as everybody may see them. */
function Configuration({ snapshot }: { snapshot: DaemonSnapshot }) {
  const { daemon, spools, sockets, atMs } = snapshot
  return (
    <>
      <section class="card" aria-labelledby="daemon">
        <h2 id="daemon">Daemon</h2>
        <Facts
          facts={[
            ['Files', daemon.files.length === 0 ? 'none: the command line alone' : daemon.files.join(', ')],
            ['Directory', <code>{daemon.directory}</code>],
            ['User', `uid ${daemon.uid}, gid ${daemon.gid}`],
            ['Started', <When ms={daemon.startedAtMs} nowMs={atMs} />],
            ['Version', daemon.version],
            ['Memory', `${bytesText(daemon.rssBytes)} of the master`],
            [
              'Stored',
              `${countOf(daemon.stored, 'task')} for others, ${countOf(daemon.refused, 'request')} refused`,
            ],
          ]}
        />
      </section>
      <section class="card" aria-labelledby="spools">
        <h2 id="spools">Spools</h2>
        <Table
          name="Spools"
          columns={[
            { title: 'Directory', cell: ({ directory }) => <code>{directory}</code> },
            {
              title: 'Processes',
              cell: ({ processes: { size } }) =>
                size.minimum === size.maximum ? String(size.maximum) : `${size.minimum} to ${size.maximum}`,
            },
            { title: 'Algorithm', cell: ({ processes: { size } }) => size.algorithm ?? 'none' },
            { title: 'Looks every', cell: ({ look }) => (look === null ? '' : spanText(look.everyMs)) },
          ]}
          rows={spools}
          empty="It runs no spool."
        />
      </section>
      <section class="card" aria-labelledby="sockets">
        <h2 id="sockets">Sockets</h2>
        <Table
          name="Sockets"
          columns={[
            { title: 'Address', cell: ({ address }) => <code>{address}</code> },
            { title: 'Backlog', isNumber: true, cell: ({ backlog }) => countText(backlog) },
          ]}
          rows={sockets}
          empty="It listens on none."
        />
      </section>
    </>
  )
}
