export interface Pause {
  /** From when on nothing may begin, and until when, in ms since 1970. */
  readonly from: number
  readonly to: number
}

export interface Evidence {
  /** `begin` and `end` of each run (soak/handlers), and `kill - - PID MS` before whatever is killed. */
  readonly journal: readonly string[]
  /** The numbers of the tasks that were acknowledged, with their kinds. */
  readonly acknowledged: ReadonlyMap<string, string>
  /** Why each dead letter is one, by its task's number. */
  readonly dead: ReadonlyMap<string, string>
  /** When the spool of all kinds but `snake` was paused. */
  readonly pauses: readonly Pause[]
  readonly limit: number
  readonly tickMs: number
  readonly maxCrashes: number
}

interface Run {
  readonly kind: string
  readonly n: string
  readonly pid: string
  /** True if the process died during the run, or so soon afterwards that the task may not have been settled. */
  isCut: boolean
  endedAt: number | undefined
}

const SETTLED_MS = 2000
/** How long after the line of its kill a process may still begin runs: the line is written first. */
const KILLED_MS = 1000

/** Returns what must not have happened but has, and a summary. */
export function judge(evidence: Evidence): { violations: string[]; summary: string } {
  const { runs, most, ticks, violations } = read(evidence)
  for (const [n, kind] of evidence.acknowledged) {
    const fault = faultOf(kind, runs.get(n) ?? [], evidence.dead.get(n), evidence.maxCrashes)
    if (fault !== undefined) violations.push(`${kind} ${n} ${fault}`)
  }
  const tasks = [...runs].filter(([n]) => n !== 'tick')
  const again = tasks.reduce((sum, [, each]) => sum + each.length - 1, 0)
  const tickRate = `${ticks.count} ticks in ${Math.round(ticks.lastMs / 1000)} s`
  if (ticks.count > ticks.lastMs / evidence.tickMs + 1) violations.push(`too many: ${tickRate}`)
  const counts = [
    `${evidence.acknowledged.size} tasks, ${again} run again, ${evidence.dead.size} buried`,
    `at most ${most} of ${evidence.limit} limited ones at once`,
    tickRate,
  ]
  return { violations, summary: counts.join(', ') }
}

function read({ journal, pauses, limit }: Evidence) {
  const runs = new Map<string, Run[]>()
  const alive = new Map<string, Set<Run>>()
  const killed = new Map<string, number>()
  const few = new Set<Run>()
  const violations: string[] = []
  const ticks = { count: 0, firstAt: 0, lastMs: 0 }
  let most = 0
  const die = (pid: string, at: number) => {
    killed.set(pid, at)
    for (const run of alive.get(pid) ?? [])
      if (run.endedAt === undefined || at - run.endedAt < SETTLED_MS) run.isCut = true
    for (const run of alive.get(pid) ?? []) few.delete(run)
    alive.delete(pid)
  }
  for (const line of journal) {
    const [word, kind = '', n = '', pid = '', time] = line.split(' ')
    const at = Number(time)
    if (word === 'kill') die(pid, at)
    if (word === 'end') {
      const run = runs.get(n)?.findLast(each => each.pid === pid)
      if (run === undefined) violations.push(`"${line}" without a begin`)
      else {
        run.endedAt = at
        few.delete(run)
      }
    }
    if (word !== 'begin') continue
    if (kind !== 'snake' && pauses.some(({ from, to }) => at > from && at < to))
      violations.push(`${kind} ${n} began while the spool was paused`)
    if (kind === 'tick') {
      ticks.count++
      ticks.firstAt ||= at
      ticks.lastMs = at - ticks.firstAt
    }
    const before = runs.get(n) ?? []
    const isCut = at - (killed.get(pid) ?? Number.NEGATIVE_INFINITY) < KILLED_MS
    const run: Run = { kind, n, pid, isCut, endedAt: undefined }
    if (before.some(each => each.endedAt === undefined && !each.isCut))
      violations.push(`${kind} ${n} began in ${pid} while it ran in another process`)
    if (kind !== 'tick' && before.some(each => each.endedAt !== undefined && !each.isCut))
      violations.push(`${kind} ${n} ran again although it had been settled`)
    runs.set(n, [...before, run])
    if (isCut) continue
    alive.set(pid, (alive.get(pid) ?? new Set()).add(run))
    if (kind === 'few') most = Math.max(most, few.add(run).size)
    if (most > limit) violations.push(`${most} limited tasks ran at once`)
    if (kind === 'poison') die(pid, at)
  }
  return { runs, most, ticks, violations }
}

function faultOf(
  kind: string,
  runs: readonly Run[],
  reason: string | undefined,
  maxCrashes: number,
): string | undefined {
  const cut = runs.filter(run => run.isCut).length
  // a full disk may refuse the reason: then the state byte alone says that the task is to be buried
  if (kind === 'poison')
    return reason === 'crashes' || reason === 'unknown'
      ? undefined
      : `was not buried for its crashes: ${reason}`
  if (kind === 'once') {
    if (runs.length > 1) return `was to run at most once, and ran ${runs.length} times`
    if (reason !== undefined)
      // without a run, the process was killed between the mark on disk and the handler
      return reason === 'outcome-unknown' && cut === runs.length ? undefined : `was buried: ${reason}`
  }
  if (runs.some(run => run.endedAt !== undefined))
    return reason === undefined ? undefined : `ended, and was buried: ${reason}`
  if (reason === undefined) return 'was acknowledged, and is lost'
  return reason === 'crashes' && cut >= maxCrashes
    ? undefined
    : `was buried: ${reason}, cut short ${cut} times`
}
