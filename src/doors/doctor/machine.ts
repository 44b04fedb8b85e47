import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { quietly } from '../../base/errors.js'
import type { Diagnosis } from './diagnosis.js'

/** The resources that a daemon with this configuration needs. */
export interface Needs {
  /** Watches of directories and files; each daemon has one inotify instance. */
  readonly watches: number
  /** Open files of a worker, and of the master without its connections. */
  readonly files: number
  readonly connections: number
  /** The largest backlog of a listening socket; null if there is none. */
  readonly backlog: number | null
}

/** Compares the limits of this process and its user with what is needed. */
export function* checkLimits(needs: Needs, inotify: InotifyUse): Generator<Diagnosis> {
  yield* checkInotify(needs, inotify)
  yield* checkFiles(needs)
  if (needs.backlog !== null) yield* checkBacklog(needs.backlog)
}

interface InotifyUse {
  readonly instances: number
  readonly watches: number
}

/** Returns what all processes of a user hold, as far as this process may inspect them. */
export function inotifyUse(uid: number): InotifyUse {
  const found = list('/proc')
    .filter(name => /^\d+$/.test(name) && ownerOf(`/proc/${name}`) === uid)
    .flatMap(pid => list(`/proc/${pid}/fd`).map(fd => ({ pid, fd })))
    .filter(({ pid, fd }) => linkOf(`/proc/${pid}/fd/${fd}`) === 'anon_inode:inotify')
    .map(({ pid, fd }) => read(`/proc/${pid}/fdinfo/${fd}`).split('\ninotify ').length - 1)
  return { instances: found.length, watches: found.reduce((sum, watches) => sum + watches, 0) }
}

function* checkInotify({ watches }: Needs, used: InotifyUse): Generator<Diagnosis> {
  for (const [kind, needed] of [
    ['watches', watches],
    ['instances', 1],
  ] as const) {
    // the second limit applies inside a container
    const limit = Math.min(
      number(`/proc/sys/fs/inotify/max_user_${kind}`),
      number(`/proc/sys/user/max_inotify_${kind}`),
    )
    if (!Number.isFinite(limit)) continue
    const isEnough = used[kind] + needed <= limit
    yield {
      level: isEnough ? 'ok' : 'warning',
      topic: 'limits',
      about: `inotify ${kind}`,
      text: `${needed} needed, ${used[kind]} of ${limit} in use by this user`,
      ...(isEnough
        ? {}
        : {
            fix: `sysctl fs.inotify.max_user_${kind}=${Math.max(512, 2 ** Math.ceil(Math.log2((used[kind] + needed) * 2)))}`,
          }),
    }
  }
}

/** The share of its open files that the daemon uses at most for connections (doors/daemon/sockets.ts). */
const SHARE_OF_CONNECTIONS = 0.75

function* checkFiles({ files, connections }: Needs): Generator<Diagnosis> {
  const [, soft] = /^Max open files\s+(\d+)/m.exec(read('/proc/self/limits')) ?? []
  if (soft === undefined) return
  const needed = Math.max(files, Math.ceil(connections / SHARE_OF_CONNECTIONS))
  const isEnough = needed <= Number(soft)
  const fewer = files <= Number(soft) ? `: not all of ${connections} connections are served at a time` : ''
  yield {
    level: isEnough ? 'ok' : 'warning',
    topic: 'limits',
    about: 'open files',
    text: `${needed} needed, ${soft} allowed to this process${isEnough ? '' : fewer}`,
    ...(isEnough ? {} : { fix: `ulimit -n ${needed * 2}, or LimitNOFILE=${needed * 2} in the systemd unit` }),
  }
}

function* checkBacklog(backlog: number): Generator<Diagnosis> {
  const limit = number('/proc/sys/net/core/somaxconn')
  if (!Number.isFinite(limit)) return
  const isEnough = backlog <= limit
  yield {
    level: isEnough ? 'ok' : 'warning',
    topic: 'socket',
    about: 'listen',
    text: `${backlog} connections may wait to be accepted, and the kernel allows ${limit}`,
    ...(isEnough ? {} : { fix: `sysctl net.core.somaxconn=${backlog}, or set listen = ${limit}` }),
  }
}

function number(file: string): number {
  const text = read(file).trim()
  return text === '' ? Number.POSITIVE_INFINITY : Number(text)
}

// a process may end while it is read, or belong to another user
const list = (path: string) => quietly(() => readdirSync(path), [])
const read = (path: string) => quietly(() => readFileSync(path, 'utf8'), '')
const linkOf = (path: string) => quietly(() => readlinkSync(path), '')
const ownerOf = (path: string) => quietly(() => statSync(path).uid, -1)

/** @param range as in package.json: `>=20.19` */
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
