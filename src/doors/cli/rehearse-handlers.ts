import { fork } from 'node:child_process'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { messageOf } from '../../base/errors.js'
import { entryFile } from '../../base/package-root.js'
import type { ResolvedOptions } from '../../formats/config/options.js'
import { sharedAreaBytes } from '../../formats/config/shared-areas.js'
import type { SpoolConfig, SpoolSettings } from '../../formats/config/spools.js'
import { isRedisAddress, nameOfRedis } from '../../formats/protocol/redis-address.js'
import type { RehearsalOptions, RehearsalResult } from '../../runtime/worker/rehearse.js'
import { planChain, planHostSettings, SharedAreas } from '../daemon/handler-plan.js'
import type { Diagnosis } from '../doctor/diagnosis.js'

const ENTRY = entryFile('rehearse')
/** A handler whose top-level `await` never settles must not block doctor for ever. */
const LOAD_MS = 60_000

/** The most lines that are shown of what handlers print while they are loaded. */
const MOST_LINES = 1000

type Say = (line: string) => void

/**
 * Loads the handlers of each spool in a separate, temporary process, as the daemon's user.
 *
 * @param say called with each line that they print
 */
export async function* rehearseHandlers(
  config: ResolvedOptions,
  home: string,
  say: Say,
): AsyncGenerator<Diagnosis> {
  let lines = 0
  const sayLine = (line: string) => {
    if (lines++ < MOST_LINES) say(line)
  }
  const own = config.spools.filter(({ isExternal }) => !isExternal)
  // handlers that several spools have in common are loaded once
  const different = new Map(own.map(spool => [codeOf(spool), spool]))
  const named = [...different.values()].map(settings => ({ settings, spool: placeOf(settings) }))
  for (const each of named.length > 0 ? named : [{ settings: config.anySpool, spool: home }]) {
    const whose = named.length > 1 ? `those of ${each.spool}, ` : ''
    const found = { topic: 'handlers', about: `${whose}loaded in a process of their own` } as const
    const { error, warnings } = await rehearse(config, home, each.settings, each.spool, sayLine)
    for (const text of warnings) yield { level: 'warning', ...found, text }
    if (error !== undefined) yield { level: 'error', ...found, text: error }
    else yield { level: 'ok', ...found, text: 'they can be loaded' }
  }
}

/** Returns the name that handlers see of a spool: its path, or its name on Redis. */
function placeOf({ directory }: SpoolConfig): string {
  return isRedisAddress(directory) ? nameOfRedis(directory) : resolve(directory)
}

function codeOf({ handlers, ownKeys }: SpoolConfig): string {
  return JSON.stringify([handlers, ...ownKeys])
}

async function rehearse(
  config: ResolvedOptions,
  home: string,
  settings: SpoolSettings,
  spool: string,
  say: Say,
): Promise<RehearsalResult> {
  const { options, environment, spools } = config
  const here = process.cwd()
  try {
    const targets = spools.map(placeOf)
    process.chdir(home) // relative handler names start there
    const { spoolerChdir } = settings.options
    const chdir = spoolerChdir === null ? null : resolve(spoolerChdir)
    const areas = new SharedAreas()
    areas.make(sharedAreaBytes(options.sharedarea))
    const env = { ...process.env, ...Object.fromEntries(environment) }
    const chain = planChain(settings, config)
    const hostSettings = planHostSettings(config, targets)
    return await load({ chain, hostSettings, spool, chdir }, areas.fds, env, say)
  } catch (error) {
    return { error: messageOf(error), warnings: [] }
  } finally {
    process.chdir(here)
  }
}

function load(
  options: RehearsalOptions,
  areaFds: readonly number[],
  env: NodeJS.ProcessEnv,
  say: Say,
): Promise<RehearsalResult> {
  const child = fork(ENTRY, [], { stdio: ['ignore', 'pipe', 'pipe', 'ipc', ...areaFds], env })
  for (const input of [child.stdout, child.stderr])
    if (input !== null) createInterface({ input }).on('line', say)
  return new Promise(resolve => {
    const end = (result: RehearsalResult) => {
      clearTimeout(timer)
      child.kill('SIGKILL')
      resolve(result)
    }
    const timer = setTimeout(
      () => end({ error: `they are still loading after ${LOAD_MS / 1000} s`, warnings: [] }),
      LOAD_MS,
    )
    child.once('message', (result: RehearsalResult) => end(result))
    child.once('error', error => end({ error: messageOf(error), warnings: [] }))
    child.once('exit', (code, signal) =>
      end({ error: `loading them ended the process (${signal ?? `code ${code}`})`, warnings: [] }),
    )
    child.send(options)
  })
}
