import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  readdirSync,
  readSync,
  openSync as reopenSync,
} from 'node:fs'
import { baseName, toFsPath } from '../../base/task/ref.js'
import { isLetter } from '../../engines/spool/dead-letters.js'
import { STATE_DIRECTORY } from '../../engines/spool/names.js'
import type { Owner } from '../../engines/spool/permissions.js'
import { holdBelow } from '../../engines/spool/priority-directory.js'
import { isRecord } from '../../engines/spool/records.js'
import { packetIn } from '../../engines/spool/spool-file.js'
import { MAX_PACKET_BYTES, SPOOL_MODIFIER } from '../../formats/protocol/header.js'
import { O_PATH } from '../../system/calls.js'
import { descriptorPath } from '../../system/descriptor-path.js'
import { openSync } from '../../system/files/anchored-path.js'

const OPENING_BRACE = 0x7b
/** The limit for a record, or a dead letter's reason: far more than either has. */
const MOST_JSON_BYTES = 1024 * 1024

/**
 * A file of a spool, held by its inode, and found without following any link on its path. If the file, or a directory above it,
 * is replaced in the meantime, the replacement is not changed.
 */
export class Handle {
  readonly #fd: number
  readonly #isState: boolean

  /** @param path relative to the spool, a byte string */
  constructor(spool: string, path: string) {
    const name = baseName(path)
    const directory = holdBelow(spool, path.slice(0, -name.length - 1))
    this.#isState = path.startsWith(`${STATE_DIRECTORY}/`) && name.endsWith('.json')
    try {
      this.#fd = openSync(toFsPath(`${directory.path}/${name}`), O_PATH | constants.O_NONBLOCK)
    } finally {
      directory.release()
    }
  }

  stats() {
    return fstatSync(this.#fd)
  }

  /** True if the file starts like a packet, or like our JSON. */
  looksLikeOurs(): boolean {
    const [first] = this.#start(1)
    return first === SPOOL_MODIFIER || (this.#isState && first === OPENING_BRACE)
  }

  /**
   * True if the file is a whole packet, or a record or reason. Somebody may have moved a file of root's here in order to be given
   * it.
   */
  isOurs(): boolean {
    if (this.#isState) return isJsonOfOurs(this.#start(MOST_JSON_BYTES + 1))
    const bytes = this.#start(MAX_PACKET_BYTES)
    return !('kind' in packetIn(bytes, bytes.length))
  }

  /** Returns the names in the directory. */
  names(): string[] {
    return readdirSync(descriptorPath(this.#fd), 'latin1')
  }

  #start(most: number): Buffer {
    const fd = O_PATH === 0 ? this.#fd : reopenSync(descriptorPath(this.#fd), READ)
    try {
      const bytes = Buffer.alloc(most)
      return bytes.subarray(0, readSync(fd, bytes, 0, most, 0))
    } finally {
      if (fd !== this.#fd) closeSync(fd)
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

const READ = constants.O_RDONLY | constants.O_NONBLOCK

function isJsonOfOurs(bytes: Buffer): boolean {
  if (bytes.length > MOST_JSON_BYTES) return false
  try {
    const value: unknown = JSON.parse(bytes.toString())
    return isRecord(value) || isLetter(value)
  } catch {
    return false
  }
}
