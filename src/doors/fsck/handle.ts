import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  readSync,
  openSync as reopenSync,
} from 'node:fs'
import { descriptorPath } from '../../base/descriptor-path.js'
import { baseName, toFsPath } from '../../base/task/ref.js'
import type { Owner } from '../../engines/spool/permissions.js'
import { holdBelow } from '../../engines/spool/priority-directory.js'
import { SPOOL_MODIFIER } from '../../formats/protocol/header.js'
import { openSync } from '../../system/files/anchored-path.js'

/** Linux: refers to a file without opening it, even if we may not read it. Node has no constant for it. */
const O_PATH = process.platform === 'linux' ? 0o10000000 : 0
const OPENING_BRACE = 0x7b

/**
 * A file of a spool by its inode, found without following any link on its path. If the file, or a directory above it, is
 * replaced in the meantime, the replacement is not changed.
 */
export class Handle {
  readonly #fd: number
  readonly #isJson: boolean

  /** @param path relative to the spool, a byte string */
  constructor(spool: string, path: string) {
    const name = baseName(path)
    const directory = holdBelow(spool, path.slice(0, -name.length - 1))
    this.#isJson = name.endsWith('.json')
    try {
      this.#fd = openSync(toFsPath(`${directory.path}/${name}`), O_PATH | constants.O_NONBLOCK)
    } finally {
      directory.release()
    }
  }

  stats() {
    return fstatSync(this.#fd)
  }

  /** Does it start like a packet, or like our JSON? Someone may have moved a file of root's here to get its ownership. */
  looksLikeOurs(): boolean {
    const first = this.#firstByte()
    return first === SPOOL_MODIFIER || (this.#isJson && first === OPENING_BRACE)
  }

  #firstByte(): number | undefined {
    const byte = Buffer.alloc(1)
    if (O_PATH === 0) return readSync(this.#fd, byte, 0, 1, 0) === 1 ? byte[0] : undefined
    const fd = reopenSync(descriptorPath(this.#fd), constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      return readSync(fd, byte, 0, 1, 0) === 1 ? byte[0] : undefined
    } finally {
      closeSync(fd)
    }
  }

  chmod(mode: number): void {
    if (O_PATH === 0) fchmodSync(this.#fd, mode)
    else chmodSync(descriptorPath(this.#fd), mode)
  }

  chown({ uid, gid }: Owner): void {
    if (O_PATH === 0) fchownSync(this.#fd, uid, gid)
    else chownSync(descriptorPath(this.#fd), uid, gid)
  }

  close(): void {
    closeSync(this.#fd)
  }
}
