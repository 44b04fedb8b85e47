import { hasFields } from '../../base/json-guard.js'
import { printable } from '../../base/printable.js'
import { PARK_REASONS, type Parked, type ParkedGroup, type ParkReason } from '../../base/task/parked.js'
import { describePair, type PausedPair, pausedPairs } from '../../base/task/pause.js'
import { displayName, type Ref } from '../../base/task/ref.js'
import type { Hide } from '../../formats/protocol/hide.js'
import { isNamed, taskNameOf } from '../../formats/protocol/named.js'
import { lastValue, type Vars } from '../../formats/protocol/vars.js'
import { hiddenKeysOf } from '../spool/hidden-keys.js'
import { currentPauses } from '../spool/pauses.js'
import { askDaemons } from './client.js'

/** The most groups of parked tasks that a daemon tells, and that are used of an answer. */
export const MOST_GROUPS = 200
/** How many tasks to ask for, where only the refs tell what is parked. */
const MOST_TOLD = 2000
/** How many tasks of each reason and name a daemon can name. */
export const MOST_PARKED_NAMED = 1000

/** Tells of each due task whether the daemons of its spool have it parked: by its name, its pairs, or its ref. */
class ParkedTasks {
  readonly #pairs: readonly PausedPair[]
  readonly #hide: Hide
  readonly #names = new Map<string, Parked>()
  /** The tasks that only their refs tell. */
  readonly #named: ReadonlyMap<Ref, Parked>

  /**
   * @param answers of all daemons that run the spool: a task that one of them has not parked, runs
   * @param named the groups whose tasks only their refs tell
   */
  constructor(
    pairs: readonly PausedPair[],
    hide: Hide,
    answers: ReadonlyArray<readonly ParkedGroup[]>,
    named: readonly ParkedGroup[],
  ) {
    const [first = [], ...others] = answers
    const isParkedBy = (groups: readonly ParkedGroup[], name: string) =>
      groups.some(group => group.name === name)
    this.#pairs = pairs
    this.#hide = hide
    for (const group of first)
      if (group.name !== undefined && others.every(each => isParkedBy(each, group.name ?? '')))
        this.#names.set(group.name, { reason: group.reason, detail: describeGroup(group) })
    this.#named = new Map(
      named.flatMap(group => {
        const parked = { reason: group.reason, detail: describeGroup(group) }
        return group.tasks.map(ref => [ref, parked] as const)
      }),
    )
  }

  /** Returns why a task is parked; undefined: it is not. @param vars the pairs of its packet */
  whyOf(ref: Ref, vars: Vars): Parked | undefined {
    const pair = this.#pairs.find(([key, value]) => lastValue(vars, key) === value)
    if (pair !== undefined)
      return { reason: 'paused', detail: `paused: ${describePair(this.#hide.pair(pair))}` }
    const told = this.#named.get(ref)
    if (told !== undefined) return told
    const name = this.#names.size > 0 && isNamed(vars) ? taskNameOf(vars) : undefined
    return name === undefined ? undefined : this.#names.get(printable(displayName(name)))
  }
}

/** True for groups whose tasks are known by their refs only: no key in their packets tells that they are parked. */
export function isToldByName({ reason }: ParkedGroup): boolean {
  return reason === 'alone' || reason === 'crashed'
}

/** Returns why the tasks of a group may not run, for people. */
export function describeGroup({ reason, name = '', slots = 0 }: ParkedGroup): string {
  switch (reason) {
    case 'slot':
      return `${slots} of ${printable(name)} run already`
    case 'unknown-name':
      return `no handler takes ${printable(name)}`
    case 'paused':
      return 'paused'
    case 'alone':
      return 'runs alone, because the process that ran it with others died'
    case 'crashed':
      return 'has crashed its process, and runs when no other task is due'
  }
}

/**
 * Asks the daemons of a spool what they have parked.
 *
 * @param reason only what is parked for this
 * @returns no answers if no daemon runs the spool, or if one of them cannot answer
 * @see askDaemons
 */
export function askParked(
  spool: string,
  limit: number,
  sockets?: readonly string[],
  reason?: ParkReason,
): Promise<ParkedGroup[][]> {
  const args = { limit, ...(reason === undefined ? {} : { reason }) }
  return askDaemons(spool, sockets, 'parked', args, readParkedGroups)
}

/**
 * Returns what the daemons of a spool have parked.
 *
 * @param spool its real path, a byte string
 * @param sockets as for `askParked`
 */
export async function findParked(spool: string, sockets?: readonly string[]): Promise<ParkedTasks> {
  const answers = await askParked(spool, 1, sockets)
  const reasons = new Set(
    answers
      .flat()
      .filter(isToldByName)
      .map(({ reason }) => reason),
  )
  const named = await Promise.all([...reasons].map(reason => askParked(spool, MOST_TOLD, sockets, reason)))
  return new ParkedTasks(pausedPairs(currentPauses(spool)), hiddenKeysOf(spool), answers, named.flat(2))
}

/** Reads a daemon's answer to `parked`. @throws Error if it is none */
export function readParkedGroups(answer: unknown): ParkedGroup[] {
  if (!hasFields(answer, { pid: 'count', groups: 'objects' }, {})) throw new Error('it answers otherwise')
  return (answer as { readonly groups: readonly ParkedGroup[] }).groups.slice(0, MOST_GROUPS).filter(isGroup)
}

/** True if the group has the right fields. It is checked because whoever owns the spool can answer with anything. */
function isGroup(group: ParkedGroup): boolean {
  return (
    hasFields(group, { reason: 'text', count: 'count', tasks: 'texts' }, { name: 'text', slots: 'count' }) &&
    PARK_REASONS.includes(group.reason)
  )
}
