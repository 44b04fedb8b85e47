import type { Action, ActionTable } from '../control/actions.js'
import { ControlError } from '../control/protocol.js'
import type { Collector } from '../stats/collector.js'
import type { DaemonSnapshot } from '../stats/snapshot.js'
import type { ParkedGroup } from '../task/parked.js'
import type { Ref } from '../task/ref.js'
import { type Cancel, cancelAction } from './cancel-action.js'
import type { Quiet } from './quiet.js'

/** Undefined: the spool is not run here. */
type Of<Told> = (spool: string, limit: number) => readonly Told[] | undefined

export interface Acting {
  readonly stats: Collector
  readonly watch: { readonly action: Action }
  /** What runs in a spool, and what will be started next; undefined: it is not run here. */
  readonly nextOf: Of<Ref>
  /** What waits for its time, the next one to come due first. */
  readonly laterOf: Of<Ref>
  /** What is parked, and why; the limit is that of each reason and name. */
  readonly parkedOf: Of<ParkedGroup>
  readonly lines: { readonly action: Action }
  readonly scale: Action
  readonly config: Action
  /** On one schedule. */
  readonly schedules: ActionTable
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
  quiet,
  reload,
  scanNow,
  reopenLog,
  stop,
  cancel,
}: Acting): ActionTable {
  const order = (run: () => void): Action => ({ role: 'operator', args: {}, run: () => run() })
  return {
    snapshot: {
      role: 'viewer',
      args: { 'spool?': 'text' },
      run: async ({ spool }: { readonly spool?: string }) => onlyOf(await stats.snapshot(), spool),
    },
    wait: watch.action,
    next: telling('tasks', nextOf, NAMED),
    later: telling('tasks', laterOf, NAMED),
    parked: telling('groups', parkedOf, PARKED),
    config,
    events: lines.action,
    scale,
    ...schedules,
    quiet: order(() => quiet.set(true, 'a control client')),
    unquiet: order(() => quiet.set(false, 'a control client')),
    scan: order(scanNow),
    reload: order(reload),
    'reopen-log': order(reopenLog),
    stop: order(stop),
    cancel: cancelAction(cancel),
  }
}

function telling<Told>(word: string, of: Of<Told>, usual: number): Action {
  return {
    role: 'viewer',
    args: { spool: 'text', 'limit?': 'count' },
    run: ({ spool, limit = usual }: { readonly spool: string; readonly limit?: number }) => {
      const told = of(spool, limit)
      if (told === undefined) throw new ControlError('failed', `this daemon does not run ${spool}`)
      return { pid: process.pid, [word]: told }
    },
  }
}

function onlyOf(snapshot: DaemonSnapshot, spool: string | undefined): DaemonSnapshot {
  if (spool === undefined) return snapshot
  return { ...snapshot, spools: snapshot.spools.filter(({ directory }) => directory === spool) }
}
