import type { DaemonSnapshot } from '../../../runtime/stats/snapshot.js'
import { Facts, Table, When } from './parts.js'
import { bytesText, countText, spanText } from './text.js'

/** The daemon, its spools and its sockets, as everybody may see them. */
export function Configuration({ snapshot }: { snapshot: DaemonSnapshot }) {
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
              `${countText(daemon.stored)} tasks for others, ${countText(daemon.refused)} requests refused`,
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
