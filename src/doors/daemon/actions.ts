import type { ParkedGroup, ParkedPart } from '../../base/task/parked.js'
import type { Ref } from '../../base/task/ref.js'
import { ControlError } from '../../formats/control/protocol.js'
import type { Collector } from '../../runtime/stats/collector.js'
import type { DaemonSnapshot } from '../../runtime/stats/snapshot.js'
import type { Told } from '../../runtime/supervisor/master.js'
import type { Action, ActionTable } from '../control/actions.js'
import { type Cancel, cancelAction } from './cancel-action.js'
import type { Quiet } from './quiet.js'

export interface Acting {
  readonly stats: Collector
  readonly watch: { readonly action: Action; readonly recall: Action }
  /** What runs in a spool, and what will be started next; undefined: it is not run here. */
  nextOf(spool: string, limit: number, from: number): Told<Ref>
  /** What waits for its time, the next one to come due first. */
  laterOf(spool: string, limit: number, from: number): Told<Ref>
  /** What is parked, and why; the limit is that of each reason and name. */
  parkedOf(spool: string, limit: number, part?: ParkedPart): Told<ParkedGroup>
  readonly lines: { readonly action: Action }
  readonly scale: Action
  readonly config: Action
  /** On one schedule. */
  readonly schedules: ActionTable
  /** Raises a uWSGI signal. @returns false when there is no room for it */
  raise(signal: number): boolean
  readonly quiet: Pick<Quiet, 'set' | 'toggle'>
  reload(): void
  scanNow(): void
  reopenLog(): void
  stop(): void
  readonly cancel: Cancel
}

/** How many tasks `next` and `later` name without a limit; and `parked` of each reason and name. */
const NAMED = 50
const PARKED = 5

/** What clients of the control sockets can have done. docs/control.md lists it. */
export function actionsOf({
  stats,
  watch,
  nextOf,
  laterOf,
  parkedOf,
  lines,
  scale,
  config,
  schedules,
  raise,
  quiet,
  reload,
  scanNow,
  reopenLog,
  stop,
  cancel,
}: Acting): ActionTable {
  const order = (run: () => void): Action => ({ role: 'operator', args: {}, run: () => run() })
  const actions: ActionTable = {
    snapshot: {
      role: 'viewer',
      args: { 'spool?': 'text' },
      run: async ({ spool }: { readonly spool?: string }, { role }) =>
        onlyOf(await stats.snapshotFor({ mayReadPayload: role === 'operator' }), spool),
    },
    wait: watch.action,
    ended: watch.recall,
    next: naming(nextOf),
    later: naming(laterOf),
    parked: parkedAction(parkedOf),
    config,
    events: lines.action,
    scale,
    ...schedules,
    signal: signalAction(raise),
    quiet: order(() => quiet.set(true, 'a control client')),
    unquiet: order(() => quiet.set(false, 'a control client')),
    scan: order(scanNow),
    reload: order(reload),
    'reopen-log': order(reopenLog),
    stop: order(stop),
    cancel: cancelAction(cancel),
  }
  const seenAtOnce = ([name, action]: [string, Action]) =>
    [name, action.role === 'viewer' ? action : outdating(stats, action)] as const
  return Object.fromEntries(Object.entries(actions).map(seenAtOnce))
}

function signalAction(raise: Acting['raise']): Action {
  return {
    role: 'operator',
    args: { number: 'count' },
    run({ number }: { readonly number: number }) {
      if (number > 255)
        throw new ControlError('invalid-args', `signal: expected a number from 0 to 255, got ${number}`)
      if (!raise(number)) throw new Error(`there is no room for signal ${number}: too many wait`)
    },
  }
}

/** Whoever has changed something sees it in the next snapshot. */
function outdating(stats: Collector, action: Action): Action {
  return {
    ...action,
    async run(...call) {
      try {
        return await action.run(...call)
      } finally {
        stats.outdate()
      }
    },
  }
}

interface Named {
  readonly spool: string
  readonly limit?: number
  readonly from?: number
}

const NAMED_ARGS = { spool: 'text', 'limit?': 'count', 'from?': 'count' } as const

function naming(of: Acting['nextOf']): Action {
  return {
    role: 'viewer',
    args: NAMED_ARGS,
    run: async ({ spool, limit = NAMED, from = 0 }: Named) => ({
      pid: process.pid,
      tasks: known(spool, await of(spool, limit, from)),
    }),
  }
}

function parkedAction(of: Acting['parkedOf']): Action {
  return {
    role: 'viewer',
    args: { ...NAMED_ARGS, 'reason?': 'text', 'name?': 'text' },
    run: async ({ spool, limit = PARKED, from = 0, ...group }: Named & Partial<ParkedPart>) => {
      const { reason } = group
      const part = reason === undefined ? undefined : { ...group, reason, from }
      return { pid: process.pid, groups: known(spool, await of(spool, limit, part)) }
    },
  }
}

function known<T>(spool: string, told: readonly T[] | undefined): readonly T[] {
  if (told === undefined) throw new ControlError('failed', `this daemon does not run ${spool}`)
  return told
}

function onlyOf(snapshot: DaemonSnapshot, spool: string | undefined): DaemonSnapshot {
  if (spool === undefined) return snapshot
  return { ...snapshot, spools: snapshot.spools.filter(({ directory }) => directory === spool) }
}
