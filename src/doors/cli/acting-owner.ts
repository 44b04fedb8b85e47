import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { type Identity, ownerIdentity } from '../../system/privileges.js'
import type { OwnProcess } from './own-process.js'
import { isInterrupted } from './signals.js'

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

/** What is known of a spool before anybody looks into it. */
interface Spool {
  /** Its real path, or its name on Redis. */
  readonly spool: string
  readonly fault?: unknown
}

/** If all of these spools have one owner, root becomes that before anything in them is looked at. */
export async function becomeOnlyOwner({ become }: OwnProcess, places: readonly Spool[]): Promise<void> {
  const there = places.filter(({ fault }) => fault === undefined)
  const owners = there.map(({ spool }) => ownerOf(spool))
  const [first = null, ...others] = owners
  if (first !== null && others.every(other => other?.uid === first.uid)) await become(first)
}

/**
 * Acts in each spool as its owner. A process can change its identity only once; if the spools have several owners, a
 * process per owner carries out the command's part in that owner's spools; root's own come last.
 *
 * @param act called at most once, with this process's spools
 * @returns the highest exit code, or that of the part that a signal has ended
 */
export async function asOwners<Place extends Spool>(
  { part, become, runPart }: OwnProcess,
  places: readonly Place[],
  act: (places: readonly Place[]) => Promise<number>,
): Promise<number> {
  const owners = new Map<number, { readonly identity: Identity | null; readonly spools: Place[] }>()
  for (const place of places) {
    const identity = ownerOf(place.spool)
    const uid = identity?.uid ?? 0
    const owner = owners.get(uid) ?? { identity, spools: [] }
    owner.spools.push(place)
    owners.set(uid, owner)
  }
  const only = part === undefined ? [...owners.values()] : [owners.get(Number(part))]
  const [single] = only
  if (only.length === 1) {
    if (single !== undefined && single.identity !== null) await become(single.identity)
    return act(single?.spools ?? [])
  }
  let exitCode = 0
  for (const [uid, { identity }] of owners) {
    if (identity === null) continue
    const ofPart = await runPart(String(uid))
    if (isInterrupted(ofPart)) return ofPart
    exitCode = Math.max(exitCode, ofPart)
  }
  const own = owners.get(0)?.spools ?? []
  return own.length > 0 || owners.size === 0 ? Math.max(exitCode, await act(own)) : exitCode
}
