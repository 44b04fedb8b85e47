import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { TestProcess } from './process.js'
import { BIN, FIXTURES } from './workspace.js'

export interface DaemonSetup {
  readonly spool: string
  /** The source of a handler module (ESM), in which JOURNAL is a function that appends a line to the journal. */
  readonly handler?: string
  /** Instead of `handler`: a file in fixtures/handlers. */
  readonly fixture?: string
  /** True if there is no JavaScript handler: `ini` names the handlers. */
  readonly isForeign?: true
  /** Additional ini lines. */
  readonly ini?: Readonly<Record<string, string | number | boolean | readonly string[]>>
  /** Text for the end of the ini, as it is. */
  readonly text?: string
  readonly env?: NodeJS.ProcessEnv
  readonly args?: readonly string[]
  /** True if the daemon accepts tasks and runs none, so that stored files stay as they were written. */
  readonly isAside?: boolean
  /** True if `startDaemon` does not wait until the daemon is ready. */
  readonly isUnready?: boolean
  /** A command to run the daemon under, such as `strace -f`. */
  readonly under?: readonly string[]
  /** True if the daemon and its workers form a process group of their own. */
  readonly isGroup?: boolean
}

export interface Daemon extends TestProcess {
  readonly directory: string
  readonly iniFile: string
  readonly handlerFile: string
  /** The lines that the handlers wrote with JOURNAL. */
  journal(): string[]
}

const PRELUDE = (journal: string) => `
import { appendFileSync } from 'node:fs'
const JOURNAL = line => appendFileSync(${JSON.stringify(journal)}, line + '\\n')
`

/** Starts the built daemon on a spool, with its own ini file and handler next to the spool. */
export async function startDaemon(setup: DaemonSetup): Promise<Daemon> {
  const directory = dirname(setup.spool)
  const journalFile = join(directory, 'journal')
  const handlerFile =
    setup.fixture === undefined ? join(directory, 'handler.mjs') : join(FIXTURES, 'handlers', setup.fixture)
  if (setup.fixture === undefined)
    writeFileSync(handlerFile, PRELUDE(journalFile) + (setup.handler ?? DEFAULT_HANDLER))
  const iniFile = join(directory, 'app.ini')
  const spooler = setup.isAside === true ? 'spooler-external' : 'spooler'
  const handler = setup.isForeign ? {} : { 'spooler-import': handlerFile }
  writeIni(iniFile, { [spooler]: setup.spool, ...handler, ...setup.ini })
  appendFileSync(iniFile, setup.text ?? '')
  const [command, ...args] = [...(setup.under ?? []), process.execPath, BIN, iniFile, ...(setup.args ?? [])]
  const daemon = Object.assign(
    new TestProcess(command ?? '', args, {
      cwd: directory,
      ...(setup.env === undefined ? {} : { env: setup.env }),
      ...(setup.isGroup === undefined ? {} : { isGroup: setup.isGroup }),
    }),
    { directory, iniFile, handlerFile, journal: () => readJournal(directory) },
  )
  if (setup.isUnready !== true) await daemon.waitFor(/is running \(pid: \d+\)/)
  return daemon
}

/** Journals the task's name and returns SPOOL_OK. */
const DEFAULT_HANDLER = `export default (env, task) => { JOURNAL(task.name); return task.SPOOL_OK }`

export function writeIni(file: string, settings: DaemonSetup['ini'] = {}): void {
  const lines = Object.entries(settings).flatMap(([key, value]) =>
    (Array.isArray(value) ? value : [value]).map(each => `${key} = ${each}`),
  )
  writeFileSync(file, `[uwsgi]\n${lines.join('\n')}\n`)
}

/** Returns the journal of all handlers that ran in this directory, those of spoold and of uWSGI. */
export function readJournal(directory: string): string[] {
  try {
    return readFileSync(join(directory, 'journal'), 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}
