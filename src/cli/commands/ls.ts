import { realpathSync } from 'node:fs'
import { errnoOf, messageOf, SpooldError } from '../../base/errors.js'
import { type Inspection, inspectFile, type Locks, readLocks } from '../../spool/inspect.js'
import { scanSpool } from '../../spool/scan.js'
import { compareVersions } from '../../spool/version-order.js'
import { displayName, priorityOf, type Ref, toByteString } from '../../task/ref.js'
import { isoTime, jsonBytes, terminalName } from '../bytes.js'
import { shortDuration, textTable } from '../text-table.js'

export interface LsOptions {
  readonly json?: boolean
}

interface Row {
  readonly ref: Ref
  readonly file: Inspection
}

/** `spoold ls DIR…`: every task of the spools, in the order in which they would run. */
export async function ls(directories: readonly string[], { json }: LsOptions): Promise<number> {
  const locks = readLocks()
  const nowMs = Date.now()
  for (const [i, directory] of directories.entries()) {
    const rows = inspectAll(directory, await listRefs(directory), locks, nowMs)
    if (json) for (const row of rows) console.log(JSON.stringify(asJson(directory, row)))
    else {
      if (directories.length > 1) console.log(`${i === 0 ? '' : '\n'}${directory}:`)
      console.log(asTable([...rows], nowMs))
    }
  }
  return 0
}

function* inspectAll(directory: string, refs: readonly Ref[], locks: Locks, nowMs: number): Generator<Row> {
  for (const ref of refs) {
    const file = inspectFile(`${toByteString(directory)}/${ref}`, locks, nowMs)
    if (file.state !== 'gone') yield { ref, file }
  }
}

/** Also what lies in priority directories, whether the spool is ordered or not. */
async function listRefs(directory: string): Promise<Ref[]> {
  const refs: Ref[] = []
  try {
    await scanSpool(
      toByteString(realpathSync(directory)),
      { ordered: true, strictNames: false },
      {
        task: ref => refs.push(ref) > 0,
        directory() {},
        unvisited() {},
        failed: (prefix, error) =>
          console.error(`spoold: ${directory}/${displayName(prefix)} cannot be listed: ${messageOf(error)}`),
      },
    )
  } catch (error) {
    throw new SpooldError('SPOOL_UNUSABLE', whyUnlisted(directory, error), { cause: error })
  }
  return refs.sort(compareVersions)
}

function whyUnlisted(directory: string, error: unknown): string {
  switch (errnoOf(error)) {
    case 'ENOENT':
      return `${directory} does not exist; name a spool directory`
    case 'ENOTDIR':
      return `${directory} is no directory; name a spool directory, or use spoold show for a file`
    default:
      return `${directory} cannot be listed by uid ${process.geteuid?.()}: ${messageOf(error)}`
  }
}

const COLUMNS = ['STATE', 'PRIORITY', 'DUE IN', 'AGE', 'BYTES', 'NAME']

function asTable(rows: readonly Row[], nowMs: number): string {
  return textTable(
    COLUMNS,
    rows.map(row => asCells(row, nowMs)),
    COLUMNS.slice(1, -1),
  )
}

function asCells({ ref, file }: Row, nowMs: number): string[] {
  const { state, dueAtMs, mtimeMs, bytes } = file
  const dueIn = state === 'waiting' ? shortDuration(dueAtMs - nowMs) : state === 'due' ? 'now' : ''
  const age = mtimeMs > nowMs ? '' : shortDuration(nowMs - mtimeMs)
  const name = terminalName(Buffer.from(ref, 'latin1'))
  return [state, String(priorityOf(ref) ?? ''), dueIn, age, String(bytes), name]
}

function asJson(spooler: string, { ref, file }: Row) {
  const { state, dueAtMs, mtimeMs, bytes, detail } = file
  return {
    state,
    spooler,
    name: jsonBytes(Buffer.from(ref, 'latin1')),
    priority: priorityOf(ref),
    due: isoTime(dueAtMs),
    mtime: isoTime(mtimeMs),
    bytes,
    ...(detail === undefined ? {} : { detail }),
  }
}
