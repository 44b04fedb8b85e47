import { Slices } from '../../../base/each.js'
import { prefixOf, type Ref, toByteString } from '../../../base/task/ref.js'
import type { ServerOverview } from '../../../engines/server-facts.js'
import { SpoolSummary } from '../../../engines/spool/admin/summary.js'
import { SpoolView, type TaskState } from '../../../engines/spool/admin/task-view.js'
import { maySeePauses, shownPauses } from '../../../engines/spool/pauses.js'
import { scanAll } from '../../../engines/spool/scan.js'
import { compareVersions } from '../../../engines/spool/task-order.js'
import type { SpoolSnapshot, TaskCounts } from '../../../runtime/stats/snapshot.js'

/** A look at a spool without a daemon. */
export interface AloneSnapshot
  extends Pick<SpoolSnapshot, 'directory' | 'tasks' | 'dead' | 'records' | 'disk'> {
  /** Null if this user may not see the pauses. */
  readonly paused: SpoolSnapshot['paused'] | null
  /** The number of tasks per state, among those that were read: all of them, or the first that a listing met. */
  readonly states: Readonly<Partial<Record<TaskState, number>>>
}

/** The most tasks that are read. Further ones are only counted, by their names. */
const MOST_READ = 10_000
const MOST_PRIORITIES = 100

/**
 * Looks at a spool, and changes nothing.
 *
 * @param spool its real path
 * @throws the file system's error if it cannot be listed
 */
export async function lookAlone(spool: string): Promise<AloneSnapshot> {
  const bytes = toByteString(spool)
  const { refs, byPrefix, total } = await list(bytes)
  const [read, summary] = [await readTasks(bytes, refs), await new SpoolSummary(bytes).take()]
  const { states } = read
  const count = (...names: readonly TaskState[]) => names.reduce((sum, name) => sum + (states[name] ?? 0), 0)
  const isWhole = total <= refs.length
  return {
    directory: spool,
    tasks: {
      due: count('due'),
      isWhole,
      running: count('running'),
      unseen: Math.max(0, total - refs.length),
      unseenSinceMs: null,
      waiting: count('waiting', 'retrying', 'held'),
      later: count('waiting', 'retrying', 'held'),
      held: count('held'),
      unreadable: count('malformed', 'incomplete', 'unreadable'),
      parked: {},
      stored: total,
      countedAtMs: null,
      ...prioritiesOf(isWhole ? read.dueByPrefix : byPrefix),
      oldestDueMs: read.oldestDueMs,
      nextDueMs: read.nextDueMs,
    },
    states,
    ...summary,
    paused: maySeePauses(bytes) ? shownPauses(bytes) : null,
  }
}

/** Returns the same for a spool on a server. @param spool its name */
export function aloneOnServer(
  spool: string,
  { atMs, tasks, upkeep }: ServerOverview,
): AloneSnapshot & { readonly atMs: number } {
  const { due, running, waiting, retrying, held, ...order } = tasks
  const states = Object.entries({ due, running, waiting, retrying, held }).filter(([, count]) => count > 0)
  const later = waiting + retrying + held
  return {
    directory: spool,
    atMs,
    tasks: {
      ...{ due, running, waiting: later, isWhole: true, parked: {}, stored: due + running + later },
      ...{ unseen: 0, unseenSinceMs: null, later, held, unreadable: 0 },
      ...{ countedAtMs: null, ...order },
    },
    states: Object.fromEntries(states),
    ...upkeep,
  }
}

async function list(spool: string) {
  const refs: Ref[] = []
  const byPrefix = new Map<string, number>()
  let total = 0
  const task = (ref: Ref) => {
    if (total++ < MOST_READ) refs.push(ref)
    const prefix = prefixOf(ref)
    byPrefix.set(prefix, (byPrefix.get(prefix) ?? 0) + 1)
    return true
  }
  await scanAll(spool, { task, failed() {} })
  return { refs, byPrefix, total }
}

async function readTasks(spool: string, refs: readonly Ref[]) {
  const view = new SpoolView(spool)
  const slices = new Slices()
  const states: Partial<Record<TaskState, number>> = {}
  const dueByPrefix = new Map<string, number>()
  let [oldest, next] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (const ref of refs) {
    const task = view.view(ref)
    if (task === undefined) continue
    const { state, dueAtMs } = task
    states[state] = (states[state] ?? 0) + 1
    if (state === 'waiting' || state === 'retrying') next = Math.min(next, dueAtMs)
    if (state === 'due') {
      oldest = Math.min(oldest, dueAtMs)
      dueByPrefix.set(prefixOf(ref), (dueByPrefix.get(prefixOf(ref)) ?? 0) + 1)
    }
    await slices.rest()
  }
  const known = (ms: number) => (Number.isFinite(ms) ? ms : null)
  return { states, dueByPrefix, oldestDueMs: known(oldest), nextDueMs: known(next) }
}

function prioritiesOf(
  byPrefix: ReadonlyMap<string, number>,
): Pick<TaskCounts, 'priorities' | 'prioritiesLeftOut'> {
  const all = [...byPrefix].filter(([prefix]) => prefix !== '').sort(([a], [b]) => compareVersions(a, b))
  const listed = all
    .slice(0, MOST_PRIORITIES)
    .map(([prefix, due]) => ({ priority: prefix.slice(0, -1), due }))
  const none = byPrefix.get('')
  return {
    priorities: none === undefined ? listed : [...listed, { priority: null, due: none }],
    prioritiesLeftOut: all.length - listed.length,
  }
}
