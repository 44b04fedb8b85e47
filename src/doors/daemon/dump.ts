import { readFileSync } from 'node:fs'
import type { Emitter } from '../../base/events/emitter.js'
import type { Master } from '../../runtime/supervisor/master.js'

/**
 * SIGTTIN: tells what every worker does, as far as the master and the kernel know. No worker is asked, so one whose
 * handler blocks it cannot hold this up.
 */
export function dumpProcesses({ stats }: Pick<Master, 'stats'>, events: Emitter): void {
  for (const { spool, pool } of stats)
    for (const { pid, state, running, signals, outstanding } of pool.workers)
      events.emit('process-described', {
        spool,
        pid,
        state,
        running: running.map(({ ref, sinceMs }) => ({ ref, forMs: Math.max(0, Date.now() - sinceMs) })),
        signals,
        ahead: Math.max(0, outstanding - running.length - signals.length),
        kernel: kernelStateOf(pid),
      })
}

/** `R (running)`, `S (sleeping) in do_wait`; null where there is no /proc. */
function kernelStateOf(pid: number): string | null {
  try {
    const [, state] = /^State:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    const where = readFileSync(`/proc/${pid}/wchan`, 'utf8')
    return state === undefined ? null : where === '0' || where === '' ? state : `${state} in ${where}`
  } catch {
    return null
  }
}
