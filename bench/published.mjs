// What a daemon publishes, and where.
import { readFileSync } from 'node:fs'
import { until } from './harness.mjs'

/** Returns the port that a line of the log names. @param what the beginning of that line */
export const portOf = async (daemon, what) =>
  Number(
    await until(
      `${what} is published`,
      () => new RegExp(`${what} enabled on \\S+:([0-9]+)`).exec(daemon.log())?.[1],
    ),
  )

export const isExporter = pid => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('exporter.cjs')
