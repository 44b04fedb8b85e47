import { readdirSync, readFileSync } from 'node:fs'
import { Slices } from '../../base/each.js'
import { quietly } from '../../base/errors.js'

/** The holders of POSIX and OFD record locks, by device and inode. */
export interface Locks {
  isHeld(device: number, inode: number): boolean
  /** Undefined if no process holds the lock, or if we may not inspect the holder. */
  pidOf(device: number, inode: number): number | undefined
}

const HELD = /(POSIX|OFDLCK)\s+\S+\s+\S+\s+(-?\d+)\s+([0-9a-f]+:[0-9a-f]+:\d+)/

/** Reads /proc/locks, which exists on Linux only; elsewhere no lock appears to be held. */
export function readLocks(): Locks {
  const pids = readHeld()
  let owners: ReadonlyMap<string, number> | undefined
  return {
    isHeld: (device, inode) => pids.has(nameOf(device, inode)),
    pidOf(device, inode) {
      const file = nameOf(device, inode)
      if (!pids.has(file)) return undefined
      const pid = pids.get(file)
      if (pid !== undefined) return pid
      owners ??= readOwners()
      return owners.get(file)
    },
  }
}

/** Returns the locked files, and the process that has locked each; undefined if the kernel does not say. */
function readHeld(): Map<string, number | undefined> {
  const pids = new Map<string, number | undefined>()
  for (const line of linesOf('/proc/locks')) {
    // "1: OFDLCK ADVISORY  WRITE -1 00:1b:3405 0 EOF"; lines of waiters begin with "1: ->"
    const [, , pid = '', file = ''] = line.includes('->') ? [] : (HELD.exec(line) ?? [])
    if (file !== '') pids.set(file, Number(pid) > 0 ? Number(pid) : undefined)
  }
  return pids
}

/**
 * Yields each process, and the files that it has OFD locks on. An OFD lock belongs to an open file, which several processes
 * may share; only their fdinfo shows which ones.
 */
function* sharersOfLocks(): Generator<readonly [pid: number, files: readonly string[]]> {
  for (const pid of namesIn('/proc').filter(name => /^\d+$/.test(name))) {
    const lines = namesIn(`/proc/${pid}/fdinfo`).flatMap(fd => linesOf(`/proc/${pid}/fdinfo/${fd}`))
    const locks = lines.filter(line => line.startsWith('lock:')).map(line => HELD.exec(line) ?? [])
    yield [Number(pid), locks.flatMap(([, kind, , file = '']) => (kind === 'OFDLCK' ? file : []))]
  }
}

function readOwners(): ReadonlyMap<string, number> {
  const owners = new Map<string, number>()
  for (const [pid, files] of sharersOfLocks())
    for (const file of files) if (!owners.has(file)) owners.set(file, pid)
  return owners
}

/** Returns the pid that holds a lock on one file. Like `readLocks`, but yields to the event loop regularly. */
export async function holderOf({ dev, ino }: { dev: number; ino: number }): Promise<number | undefined> {
  const file = nameOf(dev, ino)
  const holder = readHeld().get(file)
  if (holder !== undefined) return holder
  const slices = new Slices()
  for (const [pid, files] of sharersOfLocks()) {
    if (files.includes(file)) return pid
    await slices.rest()
  }
  return undefined
}

// a process may have ended, or belong to another user
const linesOf = (path: string) => quietly(() => readFileSync(path, 'utf8'), '').split('\n')
const namesIn = (path: string) => quietly(() => readdirSync(path), [])
const nameOf = (device: number, inode: number) => `${hex(majorOf(device))}:${hex(minorOf(device))}:${inode}`
const hex = (number: number) => number.toString(16).padStart(2, '0')
/** Splits a Linux dev_t as glibc's major() and minor() do. */
export const majorOf = (device: number) => (device >>> 8) & 0xfff
export const minorOf = (device: number) => (device & 0xff) | ((device >>> 12) & 0xfff00)
