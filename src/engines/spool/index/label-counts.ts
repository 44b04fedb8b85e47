import { SHARDS } from './ref-hash.js'

/** Names are a stranger's: of more, the refs are only counted as others'. */
const MOST_LABELS = 1000

interface Label {
  readonly text: string
  count: number
}

/** How many refs have each of some labels. A ref is given as its hash. */
export class LabelCounts {
  readonly #byText = new Map<string, Label>()
  readonly #byKey: ReadonlyArray<Map<number, Label>> = Array.from({ length: SHARDS }, () => new Map())

  of(key: number): string | undefined {
    return this.#shardOf(key).get(key)?.text
  }

  /** The labels, and how many refs have each. */
  *counts(): Generator<readonly [text: string, count: number]> {
    for (const { text, count } of this.#byText.values()) yield [text, count]
  }

  add(key: number, text: string): void {
    this.delete(key)
    const label = this.#byText.get(text) ?? { text, count: 0 }
    if (label.count === 0 && this.#byText.size >= MOST_LABELS) return
    this.#byText.set(text, label)
    this.#shardOf(key).set(key, label)
    label.count++
  }

  delete(key: number): void {
    const label = this.#shardOf(key).get(key)
    if (label === undefined) return
    this.#shardOf(key).delete(key)
    if (--label.count === 0) this.#byText.delete(label.text)
  }

  #shardOf(key: number): Map<number, Label> {
    return this.#byKey[key % SHARDS] as Map<number, Label>
  }
}
