import { readdirSync, readlinkSync } from 'node:fs'

/**
 * Whether a process of this user has a file open. Linux only: elsewhere, and for processes of other users, it is not known.
 *
 * @param path its real path, a byte string
 */
export function hasOpen(pid: number, path: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some(fd => targetOf(pid, fd) === path)
  } catch {
    return false // it has ended
  }
}

function targetOf(pid: number, fd: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`, 'latin1')
  } catch {
    return undefined // it was closed meanwhile
  }
}
