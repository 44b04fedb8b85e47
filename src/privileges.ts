import { messageOf, SpooldError } from './base/errors.js'
import { findGroup, findPrimaryGroup, findUser } from './config/identity.js'

/** @types/node 20 does not know it. */
type WithInitgroups = { initgroups?(user: string, group: number): void }

/** Who to become. */
export interface Identity {
  readonly uid: number
  readonly gid: number
  /** The user's name, where it was given as one: its other groups follow from it. */
  readonly user: string | null
  readonly groups: readonly number[]
}

/**
 * What `uid`, `gid` and `add-gid` ask for; null when nothing is asked. A user without a group brings its own: uWSGI would
 * stay in root's.
 *
 * @throws SpooldError USER_UNKNOWN
 */
export function findIdentity(
  uid: string | null,
  gid: string | null,
  addGid: readonly string[],
): Identity | null {
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

function known(number: number | undefined, kind: 'user' | 'group', name: string): number {
  if (number === undefined) throw new SpooldError('USER_UNKNOWN', `${kind} ${name} not found`)
  return number
}

/**
 * Becomes it for good: groups first, the user last.
 *
 * @throws SpooldError USER_UNKNOWN when this process may not
 */
export function become({ uid, gid, user, groups }: Identity): void {
  if (process.geteuid?.() === uid && process.getegid?.() === gid && groups.length === 0) return
  try {
    if (user !== null) (process as WithInitgroups).initgroups?.(user, gid)
    else process.setgroups?.([gid])
    if (groups.length > 0) process.setgroups?.([...(process.getgroups?.() ?? []), ...groups])
    process.setgid?.(gid)
    process.setuid?.(uid)
  } catch (error) {
    throw new SpooldError('USER_UNKNOWN', `cannot become uid ${uid} gid ${gid}: ${messageOf(error)}`, {
      cause: error,
    })
  }
}
