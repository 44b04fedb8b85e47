import { accessSync, constants, mkdirSync, mkdtempSync, realpathSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'

/** The project's root directory. */
export const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
export const FIXTURES = join(ROOT, 'fixtures')
export const BIN = join(ROOT, 'bin/spoold.js')

/**
 * Creates a directory that is removed after the test or suite: in `base` or, by default, in memory if possible.
 *
 * Returns its real path, because the temporary directory of a machine may be a symbolic link.
 */
export function workspace(base: string = memoryDirectory()): string {
  const path = mkdtempSync(join(realpathSync(base), 'spoold-test-'))
  after(() => remove(path) || process.once('exit', () => remove(path)))
  return path
}

/** Removes a directory. @returns false while a process that is being killed still writes there */
function remove(path: string): boolean {
  try {
    rmSync(path, { recursive: true, force: true, maxRetries: 5 })
    return true
  } catch {
    return false
  }
}

/** Creates an empty spool directory. */
export function spoolDirectory(base?: string): string {
  const path = join(workspace(base), 'spool')
  mkdirSync(path, { mode: 0o750 })
  return path
}

/** Tests that run side by side fill this much memory. A container has 64 MB by default, so it uses the disk. */
const MEMORY_BYTES = 2 ** 31

function memoryDirectory(): string {
  try {
    accessSync('/dev/shm', constants.W_OK)
    const { bavail, bsize } = statfsSync('/dev/shm')
    return bavail * bsize < MEMORY_BYTES ? tmpdir() : '/dev/shm'
  } catch {
    return tmpdir()
  }
}
