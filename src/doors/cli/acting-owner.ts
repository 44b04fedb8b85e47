import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { realPathOf } from '../../system/file-stats.js'
import { type Identity, ownerIdentity } from '../../system/privileges.js'
import type { OwnProcess } from './own-process.js'

/**
 * The identity that a root command takes on, for good, before it acts in a spool. The spool's daemon can then use the files
 * that the command creates, and nothing in another user's directory can trick root. If the directory belongs to root but
 * `.spoold` does not, the owner of `.spoold` is the daemon's user.
 *
 * @returns null if this process is not root, or if the spool is root's own
 */
export function ownerOf(spool: string): Identity | null {
  if (process.geteuid?.() !== 0) return null
  for (const path of [spool, join(spool, STATE_DIRECTORY)]) {
    const stats = lstatSync(path, { throwIfNoEntry: false })
    if (path === spool && stats?.isDirectory() !== true) return null // reported where the spool is opened
    if (stats?.isDirectory() === true && stats.uid !== 0) return ownerIdentity(stats.uid, stats.gid)
  }
  return null
}

/**
 * Acts in each spool as its owner. A process can change its identity only once; if the spools have several owners, a
 * process per owner carries out the command's part in that owner's spools.
 *
 * @param act called at most once, with this process's spools
 * @returns the highest exit code
 */
export async function asOwners(
  { part, become, runPart }: OwnProcess,
  directories: readonly string[],
  act: (directories: readonly string[]) => Promise<number>,
  spoolOf: (directory: string) => string = directory => realPathOf(directory) ?? directory,
): Promise<number> {
  const owners = new Map<number, { readonly identity: Identity | null; readonly spools: string[] }>()
  for (const directory of directories) {
    const identity = ownerOf(spoolOf(directory))
    const uid = identity?.uid ?? 0
    const owner = owners.get(uid) ?? { identity, spools: [] }
    owner.spools.push(directory)
    owners.set(uid, owner)
  }
  const only = part === undefined ? [...owners.values()] : [owners.get(Number(part))]
  const [single] = only
  if (only.length === 1) {
    if (single !== undefined && single.identity !== null) await become(single.identity)
    return act(single?.spools ?? [])
  }
  const own = owners.get(0)?.spools ?? []
  let exitCode = own.length > 0 || owners.size === 0 ? await act(own) : 0
  for (const [uid, { identity }] of owners)
    if (identity !== null) exitCode = Math.max(exitCode, await runPart(String(uid)))
  return exitCode
}
