import { printable } from '../../../base/printable.js'
import type { ToldConfiguration, ToldSetting } from '../../../formats/control/configuration.js'
import { type Column, Table } from './parts.js'
import { countOf } from './text.js'

interface SettingsProps {
  readonly told: ToldConfiguration
  /** Commands may name secrets. */
  readonly mayReadCode: boolean
}

/** The options of a running daemon: those that wait for a restart, those that are set, and the defaults. */
export function Settings({ told: { settings, waiting }, mayReadCode }: SettingsProps) {
  const spools = [...new Set(settings.flatMap(({ spool }) => spool ?? []))]
  const common = settings.filter(({ spool }) => spool === undefined)
  const defaults = common.filter(isDefault)
  const columns = columnsOf(mayReadCode)
  return (
    <>
      {waiting.length > 0 && (
        <section class="card" aria-labelledby="waiting">
          <h2 id="waiting">Waiting for a restart</h2>
          <p>
            The last reload has read these. The daemon goes on with the values below until it is restarted.
          </p>
          <Table name="Options that wait for a restart" columns={columns} rows={waiting} empty="" />
        </section>
      )}
      <section class="card" aria-labelledby="options">
        <h2 id="options">Options that are set</h2>
        <Table
          name="Options that are set"
          columns={columns}
          rows={common.filter(setting => !isDefault(setting))}
          empty="None: every option has its default."
        />
      </section>
      {spools.map((spool, i) => (
        <section class="card" aria-labelledby={`options-${i}`}>
          <h2 id={`options-${i}`}>Options of {printable(spool)}</h2>
          <Table
            name={`Options of ${printable(spool)}`}
            columns={columns}
            rows={settings.filter(setting => setting.spool === spool)}
            empty=""
          />
        </section>
      ))}
      <details class="card">
        <summary>{`Defaults of ${countOf(defaults.length, 'other option')}`}</summary>
        <Table name="Defaults" columns={columns.slice(0, 2)} rows={defaults} empty="" />
      </details>
    </>
  )
}

function isDefault({ from }: ToldSetting): boolean {
  return from === 'default'
}

function columnsOf(mayReadCode: boolean): Array<Column<ToldSetting>> {
  return [
    { title: 'Option', cell: ({ option }) => <code>{option}</code> },
    { title: 'Value', cell: setting => <Value setting={setting} mayReadCode={mayReadCode} /> },
    { title: 'From', cell: ({ from }) => <span class="path">{from}</span> },
  ]
}

function Value({ setting, mayReadCode }: { setting: ToldSetting; mayReadCode: boolean }) {
  const { value, isCode } = setting
  if (isCode === true && !mayReadCode)
    return <span class="quiet">a command, for those who may read payloads</span>
  if (value === '') return <span class="quiet">{isDefault(setting) ? 'not set' : 'empty'}</span>
  return <code>{printable(value)}</code>
}
