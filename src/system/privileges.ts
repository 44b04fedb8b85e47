import { messageOf, SpooldError } from '../base/errors.js'
import type { AdditionalGroup } from '../base/events/event-map.js'
import { findGroup, findGroupName, findGroupsOf, findPrimaryGroup, findUser } from './identity.js'

/**
 * The identity of this process: user, group and supplementary groups. No other module changes it. A process changes its
 * identity once and for good: if it only switched effective ids, an attacker could switch them back to root.
 */

/** Missing from @types/node 20. */
type WithInitgroups = { initgroups?(user: string | number, group: number): void }

/** A user and groups to become. */
export interface Identity {
  readonly uid: number
  readonly gid: number
  /** The user, by name or number, whose supplementary groups are taken too; null for none. */
  readonly user: string | number | null
  readonly groups: readonly number[]
}

/**
 * The identity that `uid`, `gid` and `add-gid` ask for; null if neither `uid` nor `gid` is set. A user without a `gid`
 * gets its primary group; uWSGI would stay in root's.
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

/** A group that has nothing. */
const NOGROUP = 65_534
/** Keyed by user. */
const groupsOf = new Map<number, readonly number[] | undefined>()

/**
 * Returns the identity of a directory's owner, with that user's supplementary groups if the user has a name. A user with a
 * name gets the directory's group only as a member of it: below a directory with the set-group-ID bit, anybody can have a
 * directory of a strange group. A user without a name gets that group, but never root's.
 */
export function ownerIdentity(uid: number, gid: number): Identity {
  if (!groupsOf.has(uid)) groupsOf.set(uid, findGroupsOf(uid))
  const own = groupsOf.get(uid)
  const group = own === undefined ? gid || NOGROUP : own.includes(gid) ? gid : (own[0] ?? NOGROUP)
  return { uid, gid: group, user: uid, groups: [] }
}

/**
 * Takes on the identity for good: groups first, the user last.
 *
 * @returns false if this process already had the identity
 * @throws SpooldError USER_UNKNOWN if this process may not take it on
 */
export function become({ uid, gid, user, groups }: Identity): boolean {
  const own = process.getgroups?.() ?? []
  const hasGroups = groups.every(group => own.includes(group))
  if (process.geteuid?.() === uid && process.getegid?.() === gid && hasGroups) return false
  try {
    setGroups(user, gid)
    process.setgid?.(gid) // must precede getgroups(), to whose result Node adds the main group: root's until now
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
  process.setgroups?.([gid]) // the number has no name
}

/** The supplementary groups of this process. */
export function additionalGroups(): AdditionalGroup[] {
  const main = process.getegid?.()
  return (process.getgroups?.() ?? [])
    .filter(gid => gid !== main)
    .map(gid => ({ gid, name: findGroupName(gid) ?? null }))
}
