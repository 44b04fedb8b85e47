import { closeSync, writeSync } from 'node:fs'
import { inodeAt, Opener } from '../../system/opener.js'
import { printed, type UwsgiStats } from './uwsgi-stats.js'

export interface StatsFileOptions {
  readonly path: string
  readonly separator: string
  readonly isMinified: boolean
}

/** Appends each document of the stats server to a file, as uWSGI does (plugins/stats_pusher_file). */
export class StatsFile {
  readonly #options: StatsFileOptions
  readonly #files = new Opener(null)
  #fd: number | undefined

  constructor(options: StatsFileOptions) {
    this.#options = options
  }

  async push(stats: UwsgiStats): Promise<void> {
    const { separator, isMinified } = this.#options
    let rest = Buffer.from(`${printed(stats, isMinified)}${separator}`)
    while (rest.length > 0) rest = rest.subarray(writeSync(this.#open(), rest))
  }

  /** The file that the name leads to now: it may be rotated. */
  #open(): number {
    const { path } = this.#options
    if (this.#fd !== undefined && inodeAt(path) === inodeAt(this.#fd)) return this.#fd
    const fd = this.#files.append(path, 0o640)
    if (this.#fd !== undefined) closeSync(this.#fd)
    this.#fd = fd
    return fd
  }
}
