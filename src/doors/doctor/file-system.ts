import { readFileSync, statfsSync } from 'node:fs'
import { counted } from '../../base/counted.js'
import { shellWord } from '../../base/printable.js'
import type { Diagnosis } from './diagnosis.js'

interface Mount {
  readonly point: string
  readonly type: string
  /** The options of the mount and of the file system, as in /proc. */
  readonly options: readonly string[]
}

const IN_MEMORY = new Set(['tmpfs', 'ramfs'])
const NETWORK = /^(nfs4?|cifs|smb3|9p|ceph|afs|glusterfs|fuse\..*)$/

/** Says which kind of file system a spool is on. Linux only. */
export function* checkMount(spool: string, mountinfo = read('/proc/self/mountinfo')): Generator<Diagnosis> {
  const mount = mountOf(spool, mountinfo)
  if (mount === undefined) return
  const { type, point, options } = mount
  const about = { topic: 'file-system', about: spool } as const
  if (IN_MEMORY.has(type))
    yield {
      level: 'warning',
      ...about,
      text: `it is in memory (${type} on ${point}): its tasks do not survive a restart of the machine`,
      fix: `findmnt --target ${shellWord(spool)}, and name a spool on a disk`,
    }
  else if (type === 'overlay')
    yield {
      level: 'warning',
      ...about,
      text: `it is in a container's own layer (overlay on ${point}): its tasks are deleted with the container`,
      fix: `put it on a volume: docker run -v NAME:${shellWord(spool)} …`,
    }
  else if (NETWORK.test(type)) yield networked(spool, mount)
  else yield { level: 'ok', ...about, text: `${type} on ${point} (${options.join(',')})` }
}

function networked(spool: string, { type, point, options }: Mount): Diagnosis {
  const areLocal = options.some(option => option === 'nolock' || /^local_lock=(all|posix)$/.test(option))
  return {
    level: 'warning',
    topic: 'file-system',
    about: spool,
    text: areLocal
      ? `${type} on ${point}, mounted with locks that only work on this machine: another host may run the same tasks`
      : `${type} on ${point}: new files are noticed once per second, and a task runs on one host at a time only if locks work between hosts`,
    fix: areLocal
      ? 'set spooler-lock = lockfile, on every host'
      : 'see docs/operations.md, NFS and other shared file systems',
  }
}

/** Returns the mount of a path: the last one with the longest matching mount point. */
function mountOf(path: string, mountinfo: string): Mount | undefined {
  let found: Mount | undefined
  for (const line of mountinfo.split('\n')) {
    // 36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue
    const [, , , , escaped = '', flags = '', ...rest] = line.split(' ')
    const [type = '', , more = ''] = rest.slice(rest.indexOf('-') + 1)
    const point = escaped.replace(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    )
    const holds = point === '/' || path === point || path.startsWith(`${point}/`)
    if (escaped === '' || !holds || point.length < (found?.point.length ?? 0)) continue
    found = { point, type, options: [...new Set([...flags.split(','), ...more.split(',')])] }
  }
  return found
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** The free share below which one bad night fills the disk. */
const SCARCE = 0.05

/** Checks the room for files, in bytes and in inodes. */
export function* checkRoom(spool: string): Generator<Diagnosis> {
  const { bsize, blocks, bavail, files, ffree } = statfsSync(spool)
  const free = `${Math.floor((bavail * bsize) / 2 ** 20)} MiB free`
  // some file systems create inodes on demand, and report none
  const inodes = files === 0 ? '' : `, ${counted(ffree, 'inode')} free`
  yield {
    ...levelOf(blocks === 0 ? 1 : bavail / blocks, files === 0 ? 1 : ffree / files, spool),
    topic: 'room',
    about: spool,
    text: `${free}${inodes}`,
  }
}

function levelOf(blocks: number, inodes: number, spool: string): Pick<Diagnosis, 'level' | 'fix'> {
  if (Math.min(blocks, inodes) >= SCARCE) return { level: 'ok' }
  const level = blocks === 0 || inodes === 0 ? 'error' : 'warning'
  const fix = `spoold purge --max-age 7d ${shellWord(spool)} removes dead letters; ${inodes < SCARCE ? 'df -i' : 'df'} ${shellWord(spool)} shows what is full`
  return { level, fix }
}
