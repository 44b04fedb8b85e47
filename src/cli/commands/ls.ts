import { realpathSync } from 'node:fs'
import { messageOf, SpooldError } from '../../base/errors.js'
import { type Inspection, inspectFile, readLocks } from '../../spool/inspect.js'
import { scanSpool } from '../../spool/scan.js'
import { compareVersions } from '../../spool/version-order.js'
import { displayName, priorityOf, type Ref, toByteString } from '../../task/ref.js'
import { shortDuration, textTable } from '../text-table.js'

export interface LsOptions {
  readonly json?: boolean
}

/** `spoold ls DIR…`: every task of the spools, in the order in which they would run. */
export async function ls(directories: readonly string[], { json }: LsOptions): Promise<number> {
  const locks = readLocks()
  const nowMs = Date.now()
  const rows: string[][] = []
  for (const directory of directories)
    for (const ref of await listRefs(directory)) {
      const file = inspectFile(`${toByteString(directory)}/${ref}`, locks, nowMs)
      if (file.state === 'gone') continue
      if (json) console.log(JSON.stringify(describeFile(directory, ref, file)))
      else rows.push(rowOf(ref, file, nowMs))
    }
  if (!json)
    console.log(
      textTable(['STATE', 'PRIORITY', 'DUE IN', 'AGE', 'BYTES', 'NAME'], rows, [
        'PRIORITY',
        'DUE IN',
        'AGE',
        'BYTES',
      ]),
    )
  return 0
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
    throw new SpooldError('SPOOL_UNUSABLE', `${directory} cannot be listed: ${messageOf(error)}`, {
      cause: error,
    })
  }
  return refs.sort(compareVersions)
}

function rowOf(ref: Ref, { state, dueAtMs, mtimeMs, bytes }: Inspection, nowMs: number): string[] {
  const dueIn = state === 'waiting' ? shortDuration(dueAtMs - nowMs) : state === 'due' ? 'now' : ''
  const age = mtimeMs > nowMs ? '' : shortDuration(nowMs - mtimeMs)
  return [state, String(priorityOf(ref) ?? ''), dueIn, age, String(bytes), displayName(ref)]
}

function describeFile(spooler: string, ref: Ref, { state, dueAtMs, mtimeMs, bytes, detail }: Inspection) {
  return {
    state,
    spooler,
    name: displayName(ref),
    priority: priorityOf(ref),
    due: new Date(dueAtMs).toISOString(),
    mtime: new Date(mtimeMs).toISOString(),
    bytes,
    ...(detail === undefined ? {} : { detail }),
  }
}
