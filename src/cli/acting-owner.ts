import { spawn } from 'node:child_process'
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { loadLockLibraries } from '../spool/locker.js'
import { STATE_DIRECTORY } from '../spool/names.js'
import { realPathOf } from '../system/file-stats.js'
import { become, type Identity, ownerIdentity } from '../system/privileges.js'

/** What a command does to the process that it has for itself. */
export interface OwnProcess {
  /** The part of a command that this process does; undefined: all of it. */
  readonly part: string | undefined
  /** Becomes somebody for good. */
  become(identity: Identity): Promise<void>
  /** Runs the same command line once more, to do one part of it. @returns its exit code */
  runPart(name: string): Promise<number>
}

/** In the environment of a process that does one part of its command. */
const PART = '_SPOOLD_PART'

/** To be called once: what the command starts is not to take itself for the part. */
export function takeOwnProcess(): OwnProcess {
  const part = process.env[PART]
  delete process.env[PART]
  return { part, become: becomeForGood, runPart }
}

/** Libraries come first: Node's packages are often root's alone. */
async function becomeForGood(identity: Identity): Promise<void> {
  await loadLockLibraries()
  become(identity)
}

function runPart(name: string): Promise<number> {
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    stdio: 'inherit',
    env: { ...process.env, [PART]: name },
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => resolve(code ?? 1))
  })
}

/**
 * Whom a command becomes, for good, before it acts in a spool: what is made there can be used by its daemon, and nothing
 * in a directory that is not root's can lead root astray. Where the directory is root's and `.spoold` is not, it is that
 * one's daemon that works there.
 *
 * @returns null when this process is not root, or the spool is
 */
export function ownerOf(spool: string): Identity | null {
  if (process.geteuid?.() !== 0) return null
  for (const path of [spool, join(spool, STATE_DIRECTORY)]) {
    const stats = lstatSync(path, { throwIfNoEntry: false })
    if (path === spool && stats?.isDirectory() !== true) return null // whoever needs it says so
    if (stats?.isDirectory() === true && stats.uid !== 0) return ownerIdentity(stats.uid, stats.gid)
  }
  return null
}

/**
 * Acts in spools, in each as its owner. A process becomes one owner and stays so: where they have several, each has a
 * process of its own, which does the command's part in the spools of that one.
 *
 * @param act is called once, with the spools that are this process's part
 * @returns the highest exit code
 */
export async function asOwners(
  { part, become, runPart }: OwnProcess,
  directories: readonly string[],
  act: (directories: readonly string[]) => Promise<number>,
  spoolOf: (directory: string) => string = directory => realPathOf(directory) ?? directory,
): Promise<number> {
  const owners = new Map<number, { readonly identity: Identity | null; readonly spools: string[] }>()
  for (const directory of directories) {
    const identity = ownerOf(spoolOf(directory))
    const uid = identity?.uid ?? 0
    const owner = owners.get(uid) ?? { identity, spools: [] }
    owner.spools.push(directory)
    owners.set(uid, owner)
  }
  const only = part === undefined ? [...owners.values()] : [owners.get(Number(part))]
  const [single] = only
  if (only.length === 1) {
    if (single !== undefined && single.identity !== null) await become(single.identity)
    return act(single?.spools ?? [])
  }
  const own = owners.get(0)?.spools ?? []
  let exitCode = own.length > 0 || owners.size === 0 ? await act(own) : 0
  for (const [uid, { identity }] of owners)
    if (identity !== null) exitCode = Math.max(exitCode, await runPart(String(uid)))
  return exitCode
}
