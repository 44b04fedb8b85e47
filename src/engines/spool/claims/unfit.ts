import { messageOf } from '../../../base/errors.js'
import { baseName } from '../../../base/task/ref.js'
import { isUwsgiName, type NameRules } from '../names.js'
import type { Refusal, Unfit } from './claim.js'
import type { Settler } from './settle.js'

export interface UnfitOptions {
  readonly rules: NameRules
  /** How long such a file may stay unchanged before it is buried. */
  readonly graceMs: number
}

/**
 * Handles a file that is not a task. It is unlocked, but its writer may just be slow, so it gets a grace time. Then it is
 * buried if it has a name that only uWSGI generates; any other file may belong to somebody, and is left alone.
 */
export function handleUnfit(file: Unfit, { rules, graceMs }: UnfitOptions, settler: Settler): Refusal {
  const { kind, detail, ref, changedAtMs } = file
  const endsAt = changedAtMs + graceMs
  const isOurs = isUwsgiName(baseName(ref), rules)
  const seconds = Math.max(0, Math.round((Date.now() - changedAtMs) / 1000))
  const why = `${detail}; no process holds it, last changed ${seconds} s ago`
  if (!isOurs) return { kind, detail: why, ...(kind === 'incomplete' ? { atMs: changedAtMs } : {}) }
  if (endsAt > Date.now()) return { kind, detail: why, atMs: kind === 'incomplete' ? changedAtMs : endsAt }
  try {
    const { kind: how, detail: reason } = settler.setAside(file, undefined, kind, why)
    return how === 'gone' ? { kind: 'gone' } : { kind: 'set-aside', detail: reason ?? why }
  } catch (error) {
    return { kind, detail: `${why}; it cannot be buried: ${messageOf(error)}` }
  }
}
