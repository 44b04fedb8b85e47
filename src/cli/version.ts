import { readFileSync } from 'node:fs'

/** The version in package.json. */
export function readVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  const manifest: { version: string } = JSON.parse(text)
  return manifest.version
}
