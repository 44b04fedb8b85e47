import { appendFile } from 'node:fs/promises'
import { printed, type UwsgiStats } from './uwsgi-stats.js'

export interface StatsFileOptions {
  readonly path: string
  readonly separator: string
  readonly isMinified: boolean
}

/** Appends each document of the stats server to a file, as uWSGI does (plugins/stats_pusher_file). */
export class StatsFile {
  readonly #options: StatsFileOptions

  constructor(options: StatsFileOptions) {
    this.#options = options
  }

  async push(stats: UwsgiStats): Promise<void> {
    const { path, separator, isMinified } = this.#options
    await appendFile(path, `${printed(stats, isMinified)}${separator}`, { mode: 0o640 })
  }
}
