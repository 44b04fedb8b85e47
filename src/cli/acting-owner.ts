import { statSync } from 'node:fs'
import { join } from 'node:path'
import { STATE_DIRECTORY } from '../spool/file-name.js'
import { loadLockLibraries } from '../spool/lock.js'

/** @types/node 20 does not know it. */
type WithInitgroups = { initgroups?(user: number, group: number): void }

/**
 * Root changes a spool as its owner: what is made there can be used by its daemon, and nothing in the directory, which is
 * not root's, can lead root astray.
 */
export async function asOwnerOf<T>(spool: string, act: () => Promise<T>): Promise<T> {
  const { uid, gid } = statSync(join(spool, STATE_DIRECTORY), { throwIfNoEntry: false }) ?? statSync(spool)
  if (process.geteuid?.() !== 0 || uid === 0) return act()
  await loadLockLibraries() // from where that user may not look: Node's packages are often root's alone
  const [group, groups] = [process.getegid?.() ?? 0, process.getgroups?.() ?? []]
  try {
    becomeMember(uid, gid)
    process.setegid?.(gid)
    process.seteuid?.(uid)
    return await act()
  } finally {
    process.seteuid?.(0)
    process.setegid?.(group)
    process.setgroups?.(groups)
  }
}

function becomeMember(uid: number, gid: number): void {
  try {
    ;(process as WithInitgroups).initgroups?.(uid, gid)
  } catch {
    process.setgroups?.([gid]) // a number without a name
  }
}
