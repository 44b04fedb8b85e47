import { spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { resolve } from 'node:path'
import { messageOf, SpooldError } from '../../base/errors.js'
import { checkConfig } from '../../config/check.js'
import { setReload } from '../../config/ini-logic.js'
import type { Sources } from '../../config/read-config.js'
import { formatProblem } from '../../config/setting.js'
import { runDaemon } from '../../daemon.js'

/** Tells a process that it is the one in the background. Not for people, so not in the table. */
export const BACKGROUND_FLAG = '--in-background'

/** What the process in the background tells the one that started it. */
type Word = { readonly started: true } | { readonly failed: string }

/** `spoold [app.ini] [--option value…]`: runs the daemon. @returns the exit code */
export async function run(sources: Sources, isBackground: boolean): Promise<number> {
  const config = checkConfig(sources)
  const { errors, warnings } = config.problems
  if (errors.length > 0)
    throw new SpooldError(
      'CONFIG_INVALID',
      ['the configuration is wrong:', ...[...errors, ...warnings].map(formatProblem)].join('\n'),
    )
  const { daemonize } = config.options
  if (daemonize !== null && !isBackground) return sendToBackground(resolve(daemonize))
  try {
    return await runDaemon({
      config,
      version: sources.version,
      logFile: daemonize === null ? null : resolve(daemonize),
      readConfig() {
        setReload()
        return checkConfig(sources)
      },
      started: () => tell({ started: true }),
    })
  } catch (error) {
    tell({ failed: messageOf(error) })
    throw error
  }
}

function tell(word: Word): void {
  if (!process.connected) return
  process.send?.(word, () => process.disconnect?.())
}

/** Starts this program once more without a terminal, and waits until it runs or says why it does not. */
async function sendToBackground(logFile: string): Promise<number> {
  const log = openSync(logFile, 'a', 0o640)
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1), BACKGROUND_FLAG], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
  })
  return new Promise((resolve, reject) => {
    child.on('message', (word: Word) => {
      if ('failed' in word) return reject(new SpooldError('START_FAILED', word.failed))
      child.unref()
      resolve(0)
    })
    child.once('exit', code =>
      reject(new SpooldError('START_FAILED', `the daemon exited with code ${code}; see ${logFile}`)),
    )
  })
}
