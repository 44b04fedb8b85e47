import type { Diagnosis } from './diagnosis.js'

/** @param range of package.json: `>=20.19` */
export function checkNode(range: string, version = process.versions.node): Diagnosis {
  const about = { topic: 'node', about: process.execPath } as const
  const needed = range.replace(/^>=/, '')
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [leastMajor = 0, leastMinor = 0] = needed.split('.').map(Number)
  if (major > leastMajor || (major === leastMajor && minor >= leastMinor))
    return { level: 'ok', ...about, text: `Node ${version}` }
  return {
    level: 'error',
    ...about,
    text: `Node ${version}, and spoold needs ${needed}`,
    fix: 'install a later Node',
  }
}
