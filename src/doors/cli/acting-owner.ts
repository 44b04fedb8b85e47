import { realpathSync } from 'node:fs'
import { resolve } from 'node:path'
import { SpooldError } from '../../base/errors.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import { sameDirectory } from '../../engines/spool/permissions.js'
import type { ResolvedOptions } from '../../formats/config/options.js'
import { isRedisAddress } from '../../formats/protocol/redis-address.js'
import { systemError } from '../../system/calls.js'
import { findUser } from '../../system/identity.js'
import { type FoundSpool, findSpool, holdSpool, whoseFile } from '../../system/opener.js'
import { type Identity, identityOf, ownerIdentity } from '../../system/privileges.js'
import type { OwnProcess } from './own-process.js'
import { isInterrupted } from './signals.js'

/**
 * Returns the identity that a root command takes on, for good, before it acts in a spool. The spool's daemon can then use the
 * files that the command creates, and nothing in another user's directory can trick root. If the directory belongs to root but
 * `.spoold` does not, the owner of `.spoold` is the daemon's user.
 *
 * @returns null if this process is not root, or if the spool is root's own, and nobody else can exchange it
 * @throws SpooldError SPOOL_UNUSABLE if it is not clear for whom root acts
 */
export function ownerOf(spool: string): Identity | null {
  return process.geteuid?.() === 0 && !isRedisAddress(spool) ? lookAt(spool).owner : null
}

/**
 * Returns the real path of a spool.
 *
 * @throws SpooldError SPOOL_UNUSABLE if this is root, and the owner is not clear; an error of the system
 */
export function realSpool(path: string): string {
  if (process.geteuid?.() !== 0) return sameDirectory(path, realpathSync.native(path))
  const { path: real, missing } = lookAt(path)
  if (missing !== undefined) throw systemError(missing, 'realpath', path)
  return sameDirectory(path, real)
}

/** Makes root the user of `--as`. Call it before anything is looked at. @throws SpooldError USER_UNKNOWN */
export async function actAs(user: string, { become }: OwnProcess): Promise<void> {
  const uid = findUser(user)
  if (uid === undefined) throw new SpooldError('USER_UNKNOWN', `--as: user ${user} not found`)
  const own = process.geteuid?.()
  if (own === 0) return become(ownerIdentity(uid, 0))
  if (uid !== own)
    throw new SpooldError('USER_UNKNOWN', `--as: only root can act as ${user}; this is uid ${own}`)
}

/** Holds a spool for root: the descriptor, which the caller closes, stays with that spool, whatever its name leads to later. */
export function holdForRoot(path: string): FoundSpool & { readonly fd: number } {
  return sayingWhatToDo(() => holdSpool(path, STATE_DIRECTORY))
}

function lookAt(path: string): FoundSpool {
  return sayingWhatToDo(() => findSpool(path, STATE_DIRECTORY))
}

function sayingWhatToDo<T>(look: () => T): T {
  try {
    return look()
  } catch (error) {
    if (!(error instanceof SpooldError)) throw error
    throw new SpooldError(error.code, `${error.message}; say for whom root acts, with --as USER`, {
      cause: error,
      details: error.details,
    })
  }
}

/** As `ownerOf`, but null in place of an error if the spool has a fault: nobody acts there. @throws SpooldError SPOOL_UNUSABLE */
function ownerAt({ spool, fault }: Spool): Identity | null {
  try {
    return ownerOf(spool)
  } catch (error) {
    if (fault === undefined) throw error
    return null
  }
}

/** The user as whom a command of root looks at a configuration, and runs the code that it names. */
export interface Looker {
  readonly identity: Identity
  readonly because: string
  /** Set if the configuration names no user: what its daemon, as root, does with this code. */
  readonly danger?: 'refuses' | 'runs it'
}

/**
 * Returns the user as whom root looks, because root runs no code of others: the user whom the configuration names, else the owner
 * of a spool that it runs, else whoever owns, or can exchange, a file of the code.
 *
 * @param code files that are run, in the order in which they count
 * @returns null if this process is not root, or if root itself may look: the configuration names root, or all of it is root's
 * @throws SpooldError USER_UNKNOWN
 */
export function lookerOf({ options, spools }: ResolvedOptions, code: readonly string[]): Looker | null {
  if (process.geteuid?.() !== 0) return null
  const named = identityOf(options)
  if (named !== null)
    return named.uid === 0 ? null : { identity: named, because: 'whom the configuration names' }
  for (const { directory, isExternal } of spools) {
    if (isExternal || isRedisAddress(directory)) continue
    const { owner: identity, missing } = lookAt(resolve(directory))
    if (identity !== null && missing === undefined)
      return { identity, because: `to whom ${directory} belongs`, danger: 'refuses' }
  }
  for (const file of code) {
    const identity = whoseFile(file)
    if (identity !== null) return { identity, because: `who can change ${file}`, danger: 'runs it' }
  }
  return null
}

/** What is known of a spool before anybody looks into it. */
interface Spool {
  /** Its real path, or its name on Redis. */
  readonly spool: string
  readonly fault?: unknown
}

/** Makes root the owner of these spools, if they have one owner. Call it before anything in them is looked at. */
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
  { part, become, runParts }: OwnProcess,
  places: readonly Place[],
  act: (places: readonly Place[]) => Promise<number>,
): Promise<number> {
  const owners = new Map<number, { readonly identity: Identity | null; readonly spools: Place[] }>()
  for (const place of places) {
    const identity = ownerAt(place)
    const uid = identity?.uid ?? 0
    const owner = owners.get(uid) ?? { identity, spools: [] }
    owner.spools.push(place)
    owners.set(uid, owner)
  }
  const only = part === undefined ? [...owners.values()] : [owners.get(Number(part))]
  const [single] = only
  if (only.length <= 1) {
    if (single !== undefined && single.identity !== null) await become(single.identity)
    return act(single?.spools ?? [])
  }
  const exitCode = await runParts(
    [...owners].flatMap(([uid, { identity }]) => (identity === null ? [] : uid)),
  )
  if (isInterrupted(exitCode)) return exitCode
  const own = owners.get(0)?.spools ?? []
  return own.length > 0 ? Math.max(exitCode, await act(own)) : exitCode
}
