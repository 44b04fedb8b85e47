import { closeSync, writeSync } from 'node:fs'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import { inodeAt, Opener } from '../../system/opener.js'
import type { PushTarget } from '../net/stats-push.js'
import { exposition } from './exposition.js'
import type { ExporterOptions } from './messages.js'
import { METRICS } from './metrics.js'
import { printed, type UwsgiStats } from './uwsgi-stats.js'

/**
 * A file of metrics, for the textfile collector of node_exporter. A reader finds a whole file or none. The file is removed at the
 * end, so that figures of a daemon that is gone are not published for ever. After a crash its age shows that it is old.
 */
export class MetricsFile {
  readonly #path: string
  readonly #files = new Opener(null)
  /** The inode of the file that was written last. */
  #inode = ''

  constructor(path: string) {
    this.#path = path
  }

  push(snapshot: DaemonSnapshot): void {
    const text = exposition(METRICS, snapshot, 'prometheus')
    this.#inode = this.#files.replace(this.#path, text, 0o644) // node_exporter is another user, whatever the umask
  }

  close(): void {
    try {
      this.#files.remove(this.#path, this.#inode)
    } catch {} // the directory is gone, or closed to this user
  }
}

type FileTarget = Extract<PushTarget, { kind: 'file' }>

/** Appends each document of the stats server to a file, as uWSGI does (plugins/stats_pusher_file). */
export class StatsFile {
  readonly #target: FileTarget
  readonly #options: ExporterOptions
  readonly #files = new Opener(null)
  #fd: number | undefined

  constructor(target: FileTarget, options: ExporterOptions) {
    this.#target = target
    this.#options = options
  }

  async push(stats: UwsgiStats): Promise<void> {
    const text = printed(stats, this.#options.statsMinified)
    let rest = Buffer.from(`${text}${this.#target.separator}`)
    while (rest.length > 0) rest = rest.subarray(writeSync(this.#open(), rest))
  }

  /** Returns a descriptor of the file that the name leads to now, because the file may be rotated. */
  #open(): number {
    const { path } = this.#target
    if (this.#fd !== undefined && inodeAt(path) === inodeAt(this.#fd)) return this.#fd
    const fd = this.#files.append(path, 0o640)
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = fd
    return fd
  }
}
