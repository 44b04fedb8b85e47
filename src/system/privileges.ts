import { messageOf, SpooldError } from '../base/errors.js'
import type { AdditionalGroup } from '../events/event-map.js'
import { findGroup, findGroupName, findPrimaryGroup, findUser } from './identity.js'

/**
 * Who this process is, whom it becomes, and with which groups: nothing else changes identities. A process becomes
 * somebody once, and for good: effective ids that go back and forth are root's to whoever finds a way in between.
 */

/** @types/node 20 does not know it. */
type WithInitgroups = { initgroups?(user: string | number, group: number): void }

/** Who to become. */
export interface Identity {
  readonly uid: number
  readonly gid: number
  /** Whose other groups are taken too, by name or number; null: nobody's. */
  readonly user: string | number | null
  readonly groups: readonly number[]
}

/**
 * What `uid`, `gid` and `add-gid` ask for; null when nothing is asked. A user without a group brings its own: uWSGI would
 * stay in root's.
 *
 * @throws SpooldError USER_UNKNOWN
 */
export function identityOf({ uid, gid, addGid }: IdentityOptions): Identity | null {
  if (uid === null && gid === null) return null
  const user = uid === null ? (process.getuid?.() ?? 0) : known(findUser(uid), 'user', uid)
  const ownGroup = uid === null ? undefined : findPrimaryGroup(uid)
  const group = gid === null ? (ownGroup ?? process.getgid?.() ?? 0) : known(findGroup(gid), 'group', gid)
  const isNamed = uid !== null && !/^[0-9]+$/.test(uid)
  return {
    uid: user,
    gid: group,
    user: isNamed ? uid : null,
    groups: addGid.map(name => known(findGroup(name), 'group', name)),
  }
}

interface IdentityOptions {
  readonly uid: string | null
  readonly gid: string | null
  readonly addGid: readonly string[]
}

function known(number: number | undefined, kind: 'user' | 'group', name: string): number {
  if (number === undefined) throw new SpooldError('USER_UNKNOWN', `${kind} ${name} not found`)
  return number
}

/** The owner of a directory, with the groups that this user has where it has a name. */
export function ownerIdentity(uid: number, gid: number): Identity {
  return { uid, gid, user: uid, groups: [] }
}

/**
 * Becomes it for good: groups first, the user last.
 *
 * @returns whether there was anything to become
 * @throws SpooldError USER_UNKNOWN when this process may not
 */
export function become({ uid, gid, user, groups }: Identity): boolean {
  if (process.geteuid?.() === uid && process.getegid?.() === gid && groups.length === 0) return false
  try {
    setGroups(user, gid)
    process.setgid?.(gid) // before the groups are read, to which Node adds the main one: it is root's until now
    if (groups.length > 0) process.setgroups?.([...(process.getgroups?.() ?? []), ...groups])
    process.setuid?.(uid)
    return true
  } catch (error) {
    throw new SpooldError('USER_UNKNOWN', `cannot become uid ${uid} gid ${gid}: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

function setGroups(user: Identity['user'], gid: number): void {
  try {
    if (user !== null) return (process as WithInitgroups).initgroups?.(user, gid)
  } catch (error) {
    if (typeof user === 'string') throw error
  }
  process.setgroups?.([gid]) // a number without a name
}

/** The groups of this process besides its main one. */
export function additionalGroups(): AdditionalGroup[] {
  const main = process.getegid?.()
  return (process.getgroups?.() ?? [])
    .filter(gid => gid !== main)
    .map(gid => ({ gid, name: findGroupName(gid) ?? null }))
}
