import type { Decision, Snapshot } from './algorithm.js'
import { census, grow, hold, shrink } from './answers.js'

/**
 * Grows while more than `overload` tasks wait, and shrinks while fewer do (uWSGI, core/master_utils.c,
 * `uwsgi_cheaper_algo_backlog`).
 */
export function backlog(snapshot: Snapshot): Decision {
  const { workers, options, canSpawn, backlog } = snapshot
  const { present } = census(snapshot)
  const held = { target: hold(snapshot), state: undefined }
  const reason = `${backlog} waiting`

  if (workers.length === 0) return { ...held, reason: 'no worker lives' }
  if (canSpawn && backlog > options.overload)
    return { ...held, target: grow(snapshot, options.step ?? 1), reason }
  if (backlog < options.overload && present > options.minimum)
    return { ...held, target: shrink(snapshot), reason }
  return { ...held, reason }
}
