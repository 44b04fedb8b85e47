import { printable } from '../printable.js'
import { displayName } from './ref.js'

/** A pair of a packet: exact bytes, one character each (latin1). */
export type PausedPair = readonly [key: string, value: string]

/** Tasks that a person has paused. */
export interface Pause {
  /** Only tasks whose packet has this pair; null: the whole spool, its signal handlers too. */
  readonly pair: PausedPair | null
  /** Epoch ms. */
  readonly sinceMs: number
  /** When the pause is over, epoch ms; null: when a person ends it. */
  readonly untilMs: number | null
}

/** The pauses of a spool. */
export interface Pauses {
  readonly pauses: readonly Pause[]
  /** Why it is unknown what is paused. Then the whole spool counts as paused, so that nothing starts that must not. */
  readonly fault?: string
  /** True if only this look could not read them: a daemon may know what is paused. */
  readonly isUnread?: boolean
}

export const NO_PAUSES: Pauses = { pauses: [] }

export function isWholePaused({ pauses, fault, isUnread = false }: Pauses): boolean {
  return (fault !== undefined && !isUnread) || pauses.some(({ pair }) => pair === null)
}

export function pausedPairs({ pauses }: Pauses): readonly PausedPair[] {
  return pauses.flatMap(({ pair }) => (pair === null ? [] : [pair]))
}

/** The pauses that are not over. */
export function lastingPauses(pauses: readonly Pause[], nowMs: number): readonly Pause[] {
  return pauses.filter(({ untilMs }) => untilMs === null || untilMs > nowMs)
}

export function isSamePair(a: PausedPair | null, b: PausedPair | null): boolean {
  return a === b || (a !== null && b !== null && a[0] === b[0] && a[1] === b[1])
}

/**
 * Describes pauses for people: `all tasks, until 2026-12-24T08:00:00Z`.
 *
 * @param known null: this user may not see what is paused
 */
export function describePauses(known: Pauses | null): string {
  if (known === null) return 'unknown: only its user and root may enter .spoold'
  const { pauses, fault, isUnread = false } = known
  const texts = pauses.map(({ pair, untilMs }) => `${describePair(pair)}${untilText(untilMs)}`)
  return (fault === undefined ? texts : [`${isUnread ? 'unknown' : 'all tasks'}, because ${fault}`]).join(
    '; ',
  )
}

/** Describes a pair for people. The value is quoted if it is more than a word, so that it can be told, and hidden, as a whole. */
export function describePair(pair: PausedPair | null): string {
  if (pair === null) return 'all tasks'
  const [key, value] = pair.map(displayName) as [string, string]
  return `tasks with ${printable(key)}=${printable(WORD.test(value) ? value : JSON.stringify(value))}`
}

/** A value that needs no quotes. The text that stands for a hidden value needs none either. */
const WORD = /^(?:[^\s,;&"'(){}[\]]+|\[hidden\])$/

function untilText(untilMs: number | null): string {
  return untilMs === null ? '' : `, until ${new Date(untilMs).toISOString().replace('.000Z', 'Z')}`
}
