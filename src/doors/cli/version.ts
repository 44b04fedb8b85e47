import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../base/package-root.js'

/** Returns the version in package.json. */
export function readVersion(): string {
  const text = readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8')
  const manifest: { version: string } = JSON.parse(text)
  return manifest.version
}
