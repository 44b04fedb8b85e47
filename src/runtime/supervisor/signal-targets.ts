import { realpathSync } from 'node:fs'
import type { WorkerProcess } from './worker-process.js'

/** The processes that handle a signal: one of all processes, one of a spool's processes, or each of these. */
type Audience =
  | { readonly kind: 'one'; readonly spool: string | null }
  | { readonly kind: 'each'; readonly workers: readonly WorkerProcess[] }
  | { readonly kind: 'none'; readonly because: 'unsupported' | 'invalid' }

/**
 * Resolves a target (uWSGI: core/signal.c, uwsgi_route_signal). uWSGI's workers serve requests and do not exist here,
 * so the processes of the spools answer to their names: spools in their order, and the oldest process of each first.
 * Mules and farms do not exist either, so any one process does their work. A directory as a target is documented in
 * uWSGI's manual, but uWSGI does not implement it.
 */
export function audienceOf(
  target: string,
  spools: readonly string[],
  workers: readonly WorkerProcess[],
): Audience {
  const isForOther = /^(mules?|mule[0-9]+|farm_.*)$/s.test(target)
  if (isForOther || ['', 'spooler', 'worker', 'worker0'].includes(target)) return { kind: 'one', spool: null }
  if (['workers', 'active-workers'].includes(target)) return { kind: 'each', workers }
  const [, position] = /^worker([0-9]+)$/.exec(target) ?? []
  if (position !== undefined) {
    const worker = workers[Number(position) - 1]
    return worker === undefined ? { kind: 'none', because: 'invalid' } : { kind: 'each', workers: [worker] }
  }
  if (!target.startsWith('/')) return { kind: 'none', because: 'unsupported' }
  const spool = spools.includes(target) ? target : realPath(target)
  return spools.includes(spool) ? { kind: 'one', spool } : { kind: 'none', because: 'unsupported' }
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
