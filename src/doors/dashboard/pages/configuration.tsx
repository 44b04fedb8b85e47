import { printable } from '../../../base/printable.js'
import {
  MOST_SETTINGS,
  readConfiguration,
  type ToldConfiguration,
  type ToldSetting,
} from '../../../formats/control/configuration.js'
import type { DaemonSnapshot } from '../../../runtime/stats/snapshot.js'
import type { PageContext } from '../context.js'
import { Card, type Column, Facts, Table, useLook, When } from '../views/parts.js'
import { bytesText, countOf, countText, spanText } from '../views/text.js'
import { framed } from './framed.js'

/** The page of what the daemon runs with. Only admins see the values of options. */
export async function configurationPage(context: PageContext) {
  const { daemon } = context
  const snapshot = await daemon.snapshot()
  const answer = await daemon.ask('config', {})
  const told = answer === null ? null : readConfiguration(answer)
  const source =
    told === null
      ? "From the daemon's snapshot. The values of options are for admins."
      : `From the running daemon, since its last reload: ${told.isCut ? `the first ${countText(MOST_SETTINGS)}` : 'all'} options that have a value. No file is read. What may be secret is hidden.`
  return framed(
    context,
    { snapshot, place: null },
    { page: 'configuration', title: 'Configuration', source },
    <>
      <Configuration snapshot={snapshot} />
      {told !== null && <Settings told={told} />}
    </>,
  )
}

/** The daemon, its spools and its sockets, as everybody may see them. */
function Configuration({ snapshot }: { snapshot: DaemonSnapshot }) {
  const { daemon, spools, sockets } = snapshot
  return (
    <>
      <Card id="daemon" title="Daemon">
        <Facts
          facts={[
            ['Files', daemon.files.length === 0 ? 'none: the command line alone' : daemon.files.join(', ')],
            ['Directory', <code>{daemon.directory}</code>],
            ['User', `uid ${daemon.uid}, gid ${daemon.gid}`],
            ['Started', <When ms={daemon.startedAtMs} />],
            ['Version', daemon.version],
            ['Memory', `${bytesText(daemon.rssBytes)} of the master`],
            [
              'Stored',
              `${countOf(daemon.stored, 'task')} for others, ${countOf(daemon.refused, 'request')} refused`,
            ],
          ]}
        />
      </Card>
      <Card id="spools" title="Spools">
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
      </Card>
      <Card id="sockets" title="Sockets">
        <Table
          name="Sockets"
          columns={[
            { title: 'Address', cell: ({ address }) => <code>{address}</code> },
            { title: 'Backlog', isNumber: true, cell: ({ backlog }) => countText(backlog) },
          ]}
          rows={sockets}
          empty="It listens on none."
        />
      </Card>
    </>
  )
}

/** The options of a running daemon: those that wait for a restart, those that are set, and the defaults. */
function Settings({ told: { settings, waiting } }: { told: ToldConfiguration }) {
  const spools = [...new Set(settings.flatMap(({ spool }) => spool ?? []))]
  const common = settings.filter(({ spool }) => spool === undefined)
  const defaults = common.filter(isDefault)
  return (
    <>
      {waiting.length > 0 && (
        <Card id="waiting" title="Waiting for a restart">
          <p>
            The last reload has read these. The daemon goes on with the values below until it is restarted.
          </p>
          <Table name="Options that wait for a restart" columns={COLUMNS} rows={waiting} empty="" />
        </Card>
      )}
      <Card id="options" title="Options that are set">
        <Table
          name="Options that are set"
          columns={COLUMNS}
          rows={common.filter(setting => !isDefault(setting))}
          empty="None: every option has its default."
        />
      </Card>
      {spools.map((spool, i) => (
        <Card id={`options-${i}`} title={`Options of ${printable(spool)}`}>
          <Table
            name={`Options of ${printable(spool)}`}
            columns={COLUMNS}
            rows={settings.filter(setting => setting.spool === spool)}
            empty=""
          />
        </Card>
      ))}
      <details class="card">
        <summary>{`Defaults of ${countOf(defaults.length, 'other option')}`}</summary>
        <Table name="Defaults" columns={COLUMNS.slice(0, 2)} rows={defaults} empty="" />
      </details>
    </>
  )
}

function isDefault({ from }: ToldSetting): boolean {
  return from === 'default'
}

const COLUMNS: ReadonlyArray<Column<ToldSetting>> = [
  { title: 'Option', cell: ({ option }) => <code>{option}</code> },
  { title: 'Value', cell: setting => <Value setting={setting} /> },
  { title: 'From', cell: ({ from }) => <span class="path">{from}</span> },
]

/** The value of an option. Commands are shown only to viewers who may read payloads, because commands may contain secrets. */
function Value({ setting }: { setting: ToldSetting }) {
  const { viewer } = useLook()
  const { value, isCode } = setting
  if (isCode === true && !viewer.mayReadPayload)
    return <span class="quiet">a command, for those who may read payloads</span>
  if (value === '') return <span class="quiet">{isDefault(setting) ? 'not set' : 'empty'}</span>
  return <code>{printable(value)}</code>
}
