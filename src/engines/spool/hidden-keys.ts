import { errnoOf } from '../../base/errors.js'
import { toFsPath } from '../../base/task/ref.js'
import { Hide } from '../../formats/protocol/hide.js'
import { lstatSync, readFileSync, unlinkSync } from '../../system/files/anchored-path.js'
import { findState, makeState, writeWhole } from './state-directory.js'

const MAX_BYTES = 64 * 1024

/** What the configuration says that a command was given, by the real path of the spool, a byte string. */
const configured = new Map<string, readonly string[]>()

/** To be called with the configuration that a command was given. @param spool its real path, a byte string */
export function configureHidden(spool: string, keys: readonly string[]): void {
  configured.set(spool, keys)
}

/**
 * Leaves in `.spoold/hide` whose values are hidden, a key per line, for commands that look at tasks without the configuration. Where
 * others could take that list away, an empty one says that nothing is. A failed write keeps no task from running.
 *
 * @param spool its real path, a byte string
 */
export function noteHiddenKeys(spool: string, keys: readonly string[]): void {
  try {
    const text = keys.map(key => `${key}\n`).join('')
    if (text !== '' || isOpenToOthers(spool))
      return void (textIn(spool) === text || writeWhole(`${makeState(spool)}/hide`, text, { flush: false }))
    const state = findState(spool)
    if (state !== undefined) unlinkSync(toFsPath(`${state}/hide`))
  } catch {}
}

/**
 * What the daemon of a spool hides. That is everything where its list is missing, and somebody else may have moved it away.
 *
 * @param spool its real path, a byte string
 */
export function hiddenKeysOf(spool: string): Hide {
  const known = configured.get(spool)
  const text = textIn(spool)
  if (text === undefined && known === undefined && isOpenToOthers(spool)) return Hide.everything
  return new Hide([...(known ?? []), ...(text ?? '').split('\n')])
}

/** Others may rename `.spoold`: they may write to the spool, and no sticky bit keeps them to their own files. */
function isOpenToOthers(spool: string): boolean {
  const mode = lstatSync(toFsPath(`${spool}/.`))?.mode ?? 0
  return (mode & OTHERS_WRITE) !== 0 && (mode & STICKY) === 0
}

const OTHERS_WRITE = 0o022
const STICKY = 0o1000

/** @returns undefined: there is none, or none that can be trusted or read */
function textIn(spool: string): string | undefined {
  try {
    const state = findState(spool)
    if (state === undefined) return undefined
    const path = toFsPath(`${state}/hide`)
    const stats = lstatSync(path)
    return stats?.isFile() === true && stats.size <= MAX_BYTES ? readFileSync(path) : undefined
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return undefined
  }
}
