import { join } from 'node:path'
import { type Daemon, startDaemon } from './daemon.js'
import { drop, packet, taskName } from './files.js'
import { until } from './until.js'
import { ROOT, spoolDirectory } from './workspace.js'

/** A module whose tasks raise the signals that they name (`raise: '1,2'`), and then run until the file `until` exists. */
const MODULE = `
import { existsSync } from 'node:fs'
import * as spoold from ${JSON.stringify(join(ROOT, 'dist/index.js'))}
const { registerSignal, signal } = spoold
const there = async file => { while (!existsSync(file)) await new Promise(resolve => setTimeout(resolve, 5)) }
export default async (env, task) => {
  if (env.name) JOURNAL('task ' + env.name)
  for (const each of env.raise?.split(',') ?? []) signal(Number(each))
  if (env.until) await there(env.until)
  return task.SPOOL_OK
}
`

/** Starts a daemon whose handler module runs `code` when it is loaded. */
export function withSignals(
  code: string,
  setup: Partial<Parameters<typeof startDaemon>[0]> = {},
): Promise<Daemon> {
  return startDaemon({ spool: spoolDirectory(), handler: `${MODULE}\n${code}`, ...setup })
}

/** Stores a task for the module. */
export function task(daemon: Daemon, vars: Readonly<Record<string, string>>): void {
  drop(join(daemon.directory, 'spool'), taskName(), packet(vars))
}

/** Waits until the given number of journal lines match, and returns them. */
export function journaled(
  daemon: Daemon,
  pattern: RegExp,
  count: number,
  timeoutMs?: number,
): Promise<readonly string[]> {
  return until(
    `${count} lines of ${pattern} are in the journal; the log is:\n${daemon.output}`,
    () => {
      const found = daemon.journal().filter(line => pattern.test(line))
      return found.length >= count ? found : undefined
    },
    timeoutMs,
  )
}
