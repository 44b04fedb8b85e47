import type { SlotHints } from '../engines/feed.js'
import type { Ref } from '../task/ref.js'
import type { SlotNews } from '../task/slots.js'

/** What one worker was told of slots: nothing while no task waits for one. */
export class ToldSlots {
  #queued: readonly string[] = []

  /** @param hints for these refs, which it gets now */
  newsOf(refs: readonly Ref[], hints: SlotHints | undefined): { readonly slots: SlotNews } | undefined {
    if (hints === undefined || hints.queued.length + this.#queued.length === 0) return undefined
    const { queued } = hints
    const tries = refs.filter(ref => hints.isTry(ref))
    if (queued === this.#queued) return tries.length === 0 ? undefined : { slots: { tries } }
    this.#queued = queued
    return { slots: { queued, tries } }
  }
}
