import type { Action, ActionTable } from '../control/actions.js'
import type { Collector } from '../stats/collector.js'
import type { DaemonSnapshot } from '../stats/snapshot.js'
import type { Quiet } from './quiet.js'

export interface Acting {
  readonly stats: Collector
  readonly watch: { readonly action: Action }
  readonly quiet: Pick<Quiet, 'set' | 'toggle'>
  reload(): void
  scanNow(): void
  reopenLog(): void
  stop(): void
}

/** What clients of the control sockets can have done. docs/control.md lists it. */
export function actionsOf({ stats, watch, quiet, reload, scanNow, reopenLog, stop }: Acting): ActionTable {
  const order = (run: () => void): Action => ({ role: 'operator', args: {}, run: () => run() })
  return {
    snapshot: {
      role: 'viewer',
      args: { 'spool?': 'text' },
      run: async ({ spool }: { readonly spool?: string }) => onlyOf(await stats.snapshot(), spool),
    },
    wait: watch.action,
    quiet: order(() => quiet.set(true, 'a control client')),
    unquiet: order(() => quiet.set(false, 'a control client')),
    scan: order(scanNow),
    reload: order(reload),
    'reopen-log': order(reopenLog),
    stop: order(stop),
  }
}

function onlyOf(snapshot: DaemonSnapshot, spool: string | undefined): DaemonSnapshot {
  if (spool === undefined) return snapshot
  return { ...snapshot, spools: snapshot.spools.filter(({ directory }) => directory === spool) }
}
