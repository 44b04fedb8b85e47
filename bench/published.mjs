// What a daemon publishes, and where.
import { readFileSync } from 'node:fs'
import { until } from './harness.mjs'

/** @param what as its line in the log begins */
export const portOf = async (daemon, what) =>
  Number(
    await until(
      `${what} is published`,
      () => new RegExp(`${what} enabled on \\S+:([0-9]+)`).exec(daemon.log())?.[1],
    ),
  )

export const isExporter = pid => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('exporter.cjs')
