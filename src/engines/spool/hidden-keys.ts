import { errnoOf } from '../../base/errors.js'
import { toFsPath } from '../../base/task/ref.js'
import { Hide } from '../../formats/protocol/hide.js'
import { lstatSync, readFileSync, unlinkSync } from '../../system/files/anchored-path.js'
import { findState, makeState, writeWhole } from './state-directory.js'

const MAX_BYTES = 64 * 1024

/**
 * Leaves in `.spoold/hide` whose values are hidden, a key per line, for commands that look at tasks without the configuration. A
 * failed write keeps no task from running.
 *
 * @param spool its real path, a byte string
 */
export function noteHiddenKeys(spool: string, keys: readonly string[]): void {
  try {
    const text = keys.map(key => `${key}\n`).join('')
    if (text !== '')
      return void (textIn(spool) === text || writeWhole(`${makeState(spool)}/hide`, text, { flush: false }))
    const state = findState(spool)
    if (state !== undefined) unlinkSync(toFsPath(`${state}/hide`))
  } catch {}
}

/**
 * What the daemon of a spool hides.
 *
 * @param spool its real path, a byte string
 */
export function hiddenKeysOf(spool: string): Hide {
  return new Hide(textIn(spool).split('\n'))
}

/** '' for anybody who may not look there, and so may not look at what is worth hiding. */
function textIn(spool: string): string {
  try {
    const state = findState(spool)
    const path = toFsPath(`${state}/hide`)
    const stats = state === undefined ? undefined : lstatSync(path)
    return stats?.isFile() === true && stats.size <= MAX_BYTES ? readFileSync(path) : ''
  } catch (error) {
    if (errnoOf(error) === undefined) throw error
    return ''
  }
}
