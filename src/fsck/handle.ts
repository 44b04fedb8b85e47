import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  openSync,
  type Stats,
} from 'node:fs'
import type { Owner } from '../spool/usable.js'
import { toFsPath } from '../task/ref.js'

/** Linux: names a file without opening it, so also one that is closed to us. Node has no constant for it. */
const O_PATH = process.platform === 'linux' ? 0o10000000 : 0

/**
 * A file by its inode: what is put in its place meanwhile, such as a link out of the spool, is not changed in its stead.
 */
export class Handle {
  readonly #fd: number

  constructor(path: string) {
    this.#fd = openSync(toFsPath(path), O_PATH | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  }

  stats(): Stats {
    return fstatSync(this.#fd)
  }

  chmod(mode: number): void {
    if (O_PATH === 0) fchmodSync(this.#fd, mode)
    else chmodSync(`/proc/self/fd/${this.#fd}`, mode)
  }

  chown({ uid, gid }: Owner): void {
    if (O_PATH === 0) fchownSync(this.#fd, uid, gid)
    else chownSync(`/proc/self/fd/${this.#fd}`, uid, gid)
  }

  close(): void {
    closeSync(this.#fd)
  }
}
