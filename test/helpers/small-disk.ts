import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'

/** Mounts a small file system until the test ends. Needs `skipUnless('root', 'mount')`. */
export function smallDisk(options: string, type: 'tmpfs' | 'ramfs' = 'tmpfs'): string {
  const path = mkdtempSync(join(tmpdir(), 'spoold-disk-'))
  execFileSync('mount', ['-t', type, ...(options === '' ? [] : ['-o', options]), type, path])
  after(() => {
    execFileSync('umount', ['-l', path])
    rmdirSync(path)
  })
  return path
}
