import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { errnoOf, SpooldError } from '../../base/errors.js'
import { PACKAGE_ROOT } from '../../base/package-root.js'

export type { JobJson, Queue, RedisQueueBackend } from 'bullmq'
export type { Cluster, ClusterOptions, Redis, RedisCommander, RedisOptions } from 'ioredis'
/** The client of a queue, as BullMQ uses it. */
export type Client = Awaited<ReturnType<import('bullmq').Queue['getBackend']>['client']>
export type Libraries = Awaited<ReturnType<typeof loadLibraries>>

const require = createRequire(import.meta.url)

/** Loads the optional libraries of this engine, which nothing else needs. @throws SpooldError LIBRARY_MISSING */
export async function loadLibraries() {
  checkVersions()
  const [{ Job, Queue, raw2NextJobData }, { Cluster, Redis }] = await Promise.all([
    import('bullmq'),
    import('ioredis'),
  ])
  return { Job, Queue, raw2NextJobData, Cluster, Redis }
}

/**
 * Checks the versions of the libraries, because npm compares none in a global installation, and installs the newest.
 *
 * @throws SpooldError LIBRARY_MISSING
 */
function checkVersions(): void {
  const manifest = readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8')
  const { peerDependencies: needed }: { peerDependencies: Record<string, string> } = JSON.parse(manifest)
  const faults = Object.entries(needed).flatMap(([name, range]) => faultOf(name, range) ?? [])
  if (faults.length === 0) return
  const command = `npm install ${beside()} ${Object.entries(needed).map(majorOf).join(' ')}`
  const text = `a spool on Redis needs packages beside spoold, but ${faults.join(', and ')}`
  throw new SpooldError('LIBRARY_MISSING', `${text}: ${command}`, { details: { command } })
}

/** @param range `^MAJOR.MINOR.PATCH`; the patch is ignored, because no release is known whose patch matters */
function faultOf(name: string, range: string): string | undefined {
  const version = versionOf(name)
  if (version === undefined) return `${name} is not installed`
  const [[major, minor = 0], [wanted, least = 0]] = [numbersOf(version), numbersOf(range)]
  return major === wanted && minor >= least ? undefined : `${name} is ${version}, and ${range} is needed`
}

function versionOf(name: string): string | undefined {
  try {
    return (require(`${name}/package.json`) as { version: string }).version
  } catch (error) {
    if (errnoOf(error) === 'MODULE_NOT_FOUND') return undefined
    throw error
  }
}

function numbersOf(version: string): number[] {
  return version.replace('^', '').split('.').map(Number)
}

function majorOf([name, range]: readonly [string, string]): string {
  return `${name}@${numbersOf(range)[0]}`
}

/** Returns the options with which npm installs packages beside spoold, because spoold finds them only there. */
function beside(): string {
  const modules = dirname(PACKAGE_ROOT)
  if (basename(modules) !== 'node_modules') return `--prefix ${PACKAGE_ROOT}`
  const home = dirname(modules)
  const isGlobal = basename(home) === 'lib' && !existsSync(join(home, 'package.json'))
  return isGlobal ? `-g --prefix ${dirname(home)}` : `--prefix ${home}`
}
