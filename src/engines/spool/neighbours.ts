import { readdirSync, readFileSync, readlinkSync, type Stats, statSync } from 'node:fs'
import { quietly } from '../../base/errors.js'
import { printable } from '../../base/printable.js'
import { toFsPath } from '../../base/task/ref.js'
import { majorOf, minorOf } from '../../system/files/lock-table.js'

/** Another process that works on a spool. */
interface Neighbour {
  readonly pid: number
  /** Its command line, or the title that it set for itself. */
  readonly command: string
  readonly isUwsgi: boolean
  /** The number of its children that also work on the spool; they are not listed. */
  readonly workers: number
}

/**
 * Returns the daemons that work on a spool on this machine, as far as this user may see. A uWSGI spooler has the directory as
 * its working directory, spoold's master has an inotify watch on it, and a worker has its working directory or an open task
 * there. Linux only.
 */
export function neighboursOf(spool: string): Neighbour[] {
  const stats = statSync(toFsPath(spool))
  const atWork = processes().filter(
    ({ pid }) => pid !== process.pid && isAtWork(pid, Buffer.from(spool, 'latin1').toString(), stats),
  )
  const parents = new Map(atWork.map(({ pid }) => [pid, parentOf(pid)]))
  const isWorker = (pid: number) => parents.has(parents.get(pid) ?? 0)
  return atWork
    .filter(({ pid }) => !isWorker(pid))
    .map(neighbour => ({
      ...neighbour,
      workers: atWork.filter(({ pid }) => parents.get(pid) === neighbour.pid).length,
    }))
}

function parentOf(pid: number): number {
  return Number(/^PPid:\s+(\d+)/m.exec(quietly(() => readFileSync(`/proc/${pid}/status`, 'utf8'), ''))?.[1])
}

function processes(): Array<Omit<Neighbour, 'workers'>> {
  return quietly(() => readdirSync('/proc'), [])
    .filter(name => /^\d+$/.test(name))
    .map(name => ({ pid: Number(name), exe: exeOf(Number(name)) }))
    .filter(({ exe }) => /(^|\/)(uwsgi[^/]*|node|nodejs|bun|deno)$/.test(exe))
    .map(({ pid, exe }) => ({ pid, command: commandOf(pid), isUwsgi: /(^|\/)uwsgi[^/]*$/.test(exe) }))
}

function isAtWork(pid: number, spool: string, stats: Stats): boolean {
  const isInside = (path: string) => path === spool || path.startsWith(`${spool}/`)
  if (isInside(quietly(() => readlinkSync(`/proc/${pid}/cwd`), ''))) return true
  const fds = quietly(() => readdirSync(`/proc/${pid}/fd`), [])
  return fds.some(fd => {
    const target = quietly(() => readlinkSync(`/proc/${pid}/fd/${fd}`), '')
    return isInside(target) || (target === 'anon_inode:inotify' && watches(pid, fd, stats))
  })
}

/**
 * True if an inotify descriptor watches the directory: "inotify wd:1 ino:1f2a sdev:1b mask:…", in hexadecimal; sdev in the
 * kernel's form, with a 20-bit minor number.
 */
function watches(pid: number, fd: string, { ino, dev }: Stats): boolean {
  const info = quietly(() => readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'), '')
  const device = majorOf(dev) * 2 ** 20 + minorOf(dev)
  return info.includes(`ino:${ino.toString(16)} sdev:${device.toString(16)} `)
}

function exeOf(pid: number): string {
  return quietly(() => readlinkSync(`/proc/${pid}/exe`), '')
}

/** Returns a process's command line, or the title that it set. Escaped, because any user may set an arbitrary title. */
export function commandOf(pid: number): string {
  const words = quietly(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'), '')
  return printable(words.replaceAll('\0', ' ').trim())
}
