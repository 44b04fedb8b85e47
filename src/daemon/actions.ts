import type { Action, ActionTable } from '../control/actions.js'
import { ControlError } from '../control/protocol.js'
import type { Collector } from '../stats/collector.js'
import type { DaemonSnapshot } from '../stats/snapshot.js'
import type { Ref } from '../task/ref.js'
import { type Cancel, cancelAction } from './cancel-action.js'
import type { Quiet } from './quiet.js'

export interface Acting {
  readonly stats: Collector
  readonly watch: { readonly action: Action }
  /** What runs in a spool, and what will be started next; undefined: it is not run here. */
  nextOf(spool: string, limit: number): readonly Ref[] | undefined
  readonly lines: { readonly action: Action }
  readonly scale: Action
  readonly quiet: Pick<Quiet, 'set' | 'toggle'>
  reload(): void
  scanNow(): void
  reopenLog(): void
  stop(): void
  readonly cancel: Cancel
}

/** How many tasks `next` names without a limit. */
const NEXT = 50

/** What clients of the control sockets can have done. docs/control.md lists it. */
export function actionsOf({
  stats,
  watch,
  nextOf,
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
    next: {
      role: 'viewer',
      args: { spool: 'text', 'limit?': 'count' },
      run: ({ spool, limit = NEXT }: { readonly spool: string; readonly limit?: number }) => {
        const refs = nextOf(spool, limit)
        if (refs === undefined) throw new ControlError('failed', `this daemon does not run ${spool}`)
        return { pid: process.pid, tasks: refs }
      },
    },
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

function onlyOf(snapshot: DaemonSnapshot, spool: string | undefined): DaemonSnapshot {
  if (spool === undefined) return snapshot
  return { ...snapshot, spools: snapshot.spools.filter(({ directory }) => directory === spool) }
}
