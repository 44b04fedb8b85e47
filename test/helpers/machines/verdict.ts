import { FEW } from './handlers.js'

/** What was done to a process, a machine or Redis, in ms since 1970. */
export interface Trouble {
  /**
   * `worker`, `daemon` (with its workers) and `redis` were killed; `cut`: a machine's link was cut; `stop`: a daemon and its
   * workers got SIGSTOP.
   */
  readonly what: 'worker' | 'daemon' | 'redis' | 'cut' | 'stop'
  /** The processes whose runs the trouble concerns; undefined: those of all processes. */
  readonly pids: readonly string[] | undefined
  readonly from: number
  /** When the trouble was over; `from` for a process that was killed. */
  readonly to: number
}

export interface Evidence {
  /** `stored`, `begin` and `end`, each with kind, number, pid and time (machines/handlers). */
  readonly journal: readonly string[]
  readonly troubles: readonly Trouble[]
  /** Why each dead letter is one, by its task's number. */
  readonly dead: ReadonlyMap<string, string>
  /** True if Redis syncs each write before its answer. If not, Redis may forget what it was told within the last second. */
  readonly isAlways: boolean
  /** The factor of all deadlines, because the machine is busy. */
  readonly patience: number
}

interface Run {
  readonly n: string
  readonly kind: string
  readonly pid: string
  readonly from: number
  to: number
}

/** `appendfsync everysec`: a sync that takes its time delays the next one by up to a second. */
const FORGETS_MS = 2000
/** A run that ended so soon before its process or Redis died may not have been settled. */
const SETTLED_MS = 2000
export const WORKER_RECOVERY_MS = 5000
export const MACHINE_RECOVERY_MS = 35_000

/** Returns what must not have happened but has, and a summary. */
export function judge(evidence: Evidence): { violations: string[]; summary: string } {
  const { stored, runs } = read(evidence.journal)
  const violations: string[] = []
  for (const { n, kind, at } of stored) {
    const own = runs.get(n) ?? []
    const reason = evidence.dead.get(n)
    const fault = faultOf(kind, own, reason, evidence)
    if (fault !== undefined) violations.push(`${kind} ${n} ${fault}`)
    const isGone = reason === undefined && own.every(({ to }) => to === Infinity)
    if (isGone && !mayBeForgotten(at, evidence)) violations.push(`${kind} ${n} was acknowledged, and is lost`)
  }
  violations.push(...tooMany([...runs.values()].flat(), evidence), ...oldTokens(evidence))
  const recoveries = recoveriesOf([...runs.values()], evidence)
  for (const { run, trouble, tookMs, limitMs } of recoveries)
    if (tookMs > limitMs * evidence.patience)
      violations.push(
        `${run.kind} ${run.n} began again ${seconds(tookMs)} after its trouble: ${trouble.what}`,
      )
  const slowest = (limitMs: number) => {
    const [first] = recoveries.filter(each => each.limitMs === limitMs).sort((a, b) => b.tookMs - a.tookMs)
    return first === undefined ? '-' : `${seconds(first.tookMs)}: ${first.run.kind} ${first.run.n}`
  }
  const again = [...runs.values()].reduce((sum, { length }) => sum + length - 1, 0)
  return {
    violations,
    summary: [
      `${stored.length} tasks, ${again} run again, ${evidence.dead.size} buried`,
      `${recoveries.length} recoveries, after at most ${slowest(WORKER_RECOVERY_MS)} (worker) and ${slowest(MACHINE_RECOVERY_MS)} (machine)`,
    ].join(', '),
  }
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`

function read(journal: readonly string[]) {
  const stored: { n: string; kind: string; at: number }[] = []
  const runs = new Map<string, Run[]>()
  for (const line of journal) {
    const [word, kind = '', n = '', pid = '', time] = line.split(' ')
    const at = Number(time)
    if (word === 'stored') stored.push({ n, kind, at })
    if (word === 'begin') runs.set(n, [...(runs.get(n) ?? []), { n, kind, pid, from: at, to: Infinity }])
    const run = word === 'end' ? runs.get(n)?.findLast(each => each.pid === pid) : undefined
    if (run !== undefined) run.to = at
  }
  return { stored, runs }
}

function faultOf(
  kind: string,
  runs: readonly Run[],
  reason: string | undefined,
  evidence: Evidence,
): string | undefined {
  for (const [i, run] of runs.entries()) {
    const next = runs[i + 1]
    if (next === undefined) break
    if (kind === 'once' && !mayBeForgotten(run.from, evidence) && !mayBeForgotten(run.to, evidence))
      return `began twice, in ${run.pid} and ${next.pid}`
    const end = Math.min(run.to + SETTLED_MS, next.from)
    if (!wasTroubled(run, end, evidence))
      return run.to > next.from
        ? `began in ${next.pid} while it ran in ${run.pid}`
        : `ran again in ${next.pid} although it had ended`
  }
  if (reason === undefined) return undefined
  if (kind !== 'once' || reason !== 'outcome-unknown') return `was buried: ${reason}`
  const [run] = runs
  if (run !== undefined && !wasTroubled(run, run.to + SETTLED_MS, evidence))
    return 'was buried although nothing had happened to its run'
  return undefined
}

/** Returns the runs of `few` that began while FEW others ran in processes to which nothing had happened. */
function tooMany(all: readonly Run[], evidence: Evidence): string[] {
  const limited = all.filter(({ kind }) => kind === 'few').sort((a, b) => a.from - b.from)
  const endOf = (run: Run) => {
    const again = limited.find(({ n, from }) => n === run.n && from > run.from)
    return Math.min(run.to, again?.from ?? Infinity, stoppedAt(run, evidence))
  }
  return limited.flatMap((run, i) => {
    const beside = limited.slice(0, i).filter(each => endOf(each) > run.from)
    return beside.length < FEW ? [] : [`few ${run.n} began beside ${beside.map(({ n }) => n).join(' and ')}`]
  })
}

/** Returns from when on another run may have the slot of this one. */
function stoppedAt({ pid, from }: Run, { troubles }: Evidence): number {
  const own = troubles.filter(each => (each.pids === undefined || each.pids.includes(pid)) && each.to >= from)
  return Math.min(Infinity, ...own.map(each => each.from))
}

/** Returns the runs whose fencing token is not larger than that of the task's run before, if Redis forgets nothing. */
function oldTokens({ journal, isAlways }: Evidence): string[] {
  const last = new Map<string, number>()
  return journal.flatMap(line => {
    const [word, kind, n = '', token] = line.split(' ')
    if (word !== 'fence' || !isAlways) return []
    const before = last.get(n) ?? 0
    last.set(n, Number(token))
    return Number(token) > before ? [] : [`${kind} ${n} began with the token ${token} after ${before}`]
  })
}

/** True if something happened to the run, or to what was to be stored of it. */
function wasTroubled({ pid, from }: Run, to: number, { troubles }: Evidence): boolean {
  return troubles.some(
    each =>
      (each.pids === undefined || each.pids.includes(pid)) && each.from <= to && each.to >= from - SETTLED_MS,
  )
}

function mayBeForgotten(at: number, { troubles, isAlways }: Evidence): boolean {
  if (isAlways) return false
  return troubles.some(({ what, from }) => what === 'redis' && at <= from && at > from - FORGETS_MS)
}

/** Returns how long tasks took to begin again after a trouble met their runs, unless another trouble delayed that. */
function recoveriesOf(all: ReadonlyArray<readonly Run[]>, { troubles }: Evidence) {
  const found: { run: Run; trouble: Trouble; tookMs: number; limitMs: number }[] = []
  for (const trouble of troubles)
    for (const runs of all)
      for (const [i, run] of runs.entries()) {
        const next = runs[i + 1]
        if (next === undefined || run.kind === 'once' || !trouble.pids?.includes(run.pid)) continue
        const wasMet = run.from <= trouble.from && run.to > trouble.from && next.from > trouble.from
        const others = troubles.filter(each => each !== trouble)
        if (!wasMet || others.some(each => delays(each, trouble.from, next.from))) continue
        if (run.kind === 'few' && others.some(each => keepsSlots(each, next.from))) continue
        const limitMs = trouble.what === 'worker' ? WORKER_RECOVERY_MS : MACHINE_RECOVERY_MS
        found.push({ run, trouble, limitMs, tookMs: next.from - trouble.from })
      }
  return found
}

/** True if a machine that is away may have kept its slots until just before `until`, when its locks expired. */
function keepsSlots({ what, from, to }: Trouble, until: number): boolean {
  return what !== 'worker' && from <= until && to >= until - MACHINE_RECOVERY_MS
}

/**
 * True if a trouble may have met the worker that took the task over. When a link is restored, Redis gets the commands that the
 * machine sent meanwhile: the sender of a pull no longer waits for the answer, so the lock that it took has to expire.
 */
function delays({ what, from, to }: Trouble, since: number, until: number): boolean {
  if (what === 'worker') return false
  if (what === 'redis') return from <= until && to >= since
  return [from, to].some(at => at >= since && at <= until)
}
