import type { Action, ActionTable } from '../control/actions.js'
import { ControlError } from '../control/protocol.js'
import type { Collector } from '../stats/collector.js'
import type { DaemonSnapshot } from '../stats/snapshot.js'
import type { Ref } from '../task/ref.js'
import { type Cancel, cancelAction } from './cancel-action.js'
import type { Quiet } from './quiet.js'

type TasksOf = (spool: string, limit: number) => readonly Ref[] | undefined

export interface Acting {
  readonly stats: Collector
  readonly watch: { readonly action: Action }
  /** What runs in a spool, and what will be started next; undefined: it is not run here. */
  readonly nextOf: TasksOf
  /** What waits for its time, the next one to come due first. */
  readonly laterOf: TasksOf
  readonly lines: { readonly action: Action }
  readonly scale: Action
  readonly quiet: Pick<Quiet, 'set' | 'toggle'>
  reload(): void
  scanNow(): void
  reopenLog(): void
  stop(): void
  readonly cancel: Cancel
}

/** How many tasks `next` and `later` name without a limit. */
const NAMED = 50

/** What clients of the control sockets can have done. docs/control.md lists it. */
export function actionsOf({
  stats,
  watch,
  nextOf,
  laterOf,
  lines,
  scale,
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
    next: naming(nextOf),
    later: naming(laterOf),
    events: lines.action,
    scale,
    quiet: order(() => quiet.set(true, 'a control client')),
    unquiet: order(() => quiet.set(false, 'a control client')),
    scan: order(scanNow),
    reload: order(reload),
    'reopen-log': order(reopenLog),
    stop: order(stop),
    cancel: cancelAction(cancel),
  }
}

function naming(tasksOf: TasksOf): Action {
  return {
    role: 'viewer',
    args: { spool: 'text', 'limit?': 'count' },
    run: ({ spool, limit = NAMED }: { readonly spool: string; readonly limit?: number }) => {
      const tasks = tasksOf(spool, limit)
      if (tasks === undefined) throw new ControlError('failed', `this daemon does not run ${spool}`)
      return { pid: process.pid, tasks }
    },
  }
}

function onlyOf(snapshot: DaemonSnapshot, spool: string | undefined): DaemonSnapshot {
  if (spool === undefined) return snapshot
  return { ...snapshot, spools: snapshot.spools.filter(({ directory }) => directory === spool) }
}
