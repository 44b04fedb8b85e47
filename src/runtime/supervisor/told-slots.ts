import type { Ref } from '../../base/task/ref.js'
import type { SlotNews } from '../../base/task/slots.js'
import type { SlotHints } from '../../engines/feed.js'

/** What one worker was told of slots: nothing while no task waits for one. */
export class ToldSlots {
  #queued: readonly string[] = []

  /** @param hints for these refs, which it gets now @param follow the name of them all, if they may wait there */
  newsOf(
    refs: readonly Ref[],
    hints: SlotHints | undefined,
    follow?: string,
  ): { readonly slots: SlotNews } | undefined {
    const more = follow === undefined ? undefined : { follow }
    if (hints === undefined || hints.queued.length + this.#queued.length === 0)
      return more && { slots: { tries: [], ...more } }
    const { queued } = hints
    const tries = refs.filter(ref => hints.isTry(ref))
    if (queued === this.#queued) return tries.length === 0 ? undefined : { slots: { tries, ...more } }
    this.#queued = queued
    return { slots: { queued, tries, ...more } }
  }
}
