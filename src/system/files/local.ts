import { statfs } from 'node:fs/promises'
import { toFsPath } from '../../base/task/ref.js'

/**
 * File systems that another host or a user process can change without raising an event here, and that may be slow to
 * answer: NFS, SMB, SMB2, FUSE, 9p, Ceph, Lustre, AFS, GPFS, VirtualBox (statfs f_type).
 */
const REMOTE = new Set([
  0x6969, 0x517b, 0xfe534d42, 0x65735546, 0x01021997, 0x00c36400, 0x0bd00bd0, 0x5346414f, 0x47504653,
  0x786f4256,
])

/** Is the directory on a disk or in the memory of this machine, so that every change raises an event? */
export async function isLocal(path: string): Promise<boolean> {
  return !REMOTE.has((await statfs(toFsPath(path))).type)
}
