import { recordOf } from '../spools.js'
import { deadOf } from '../witness.js'
import type { LeftFile, Scene } from './scene.js'
import type { Variant } from './variant.js'
import { isGuilty, isOnce } from './writers.js'

/** A run of a task, as its handler recorded it. The numbers are lines of the journal. */
interface Run {
  readonly pid: string
  readonly attempt: number
  readonly wantedAt: number
  endedAt?: number
}

interface History {
  readonly runs: Map<string, Run[]>
  /** Tasks whose fence was held for longer than a process takes to die. */
  readonly doubles: string[]
  /** Processes killed by a guilty task. */
  readonly crashed: Set<string>
  /** Per guilty task: how often it killed its process. */
  readonly suicides: Map<string, number>
  /** Tasks that ran while another program held their lock. */
  readonly intrusions: string[]
}

interface Verdict {
  readonly violations: string[]
  readonly summary: string
}

const MAX_STORIES = 5

/** Checks the evidence against spoold's guarantees. @param left the files still in the spool */
export async function judge(scene: Scene, left: readonly LeftFile[], { ini }: Variant): Promise<Verdict> {
  const maxCrashes = Number(ini['spooler-max-crashes'] ?? 3)
  // guilty tasks still run: each crash that is counted here has its lines in the journal when it is read below
  const dead = await deadOf(scene.spool)
  const crashesOf = new Map(left.map(({ n, path }) => [n, recordOf(scene.spool, path)?.crashes ?? 0]))
  const journal = scene.evidence.journal.read()
  const { runs, doubles, crashed, suicides, intrusions } = historyOf(journal)
  const acknowledged = scene.acknowledged.read().filter(Boolean)
  const broken: [rule: string, n: string][] = [
    ...doubles.map(n => ['two runs at once: its fence was held', n] as [string, string]),
    ...intrusions.map(n => ['ran under the lock of another program', n] as [string, string]),
    ...scene.evidence.unlocked.map(n => ['ran without a lock', n] as [string, string]),
    ...scene.evidence.unmarked.map(n => ['ran without a mark on disk', n] as [string, string]),
  ]
  let reruns = 0
  for (const n of new Set([...acknowledged, ...runs.keys(), ...dead.keys()])) {
    const all = runs.get(n) ?? []
    reruns += Math.max(0, all.length - 1)
    const charges = scene.evidence.charges.get(n) ?? 0
    for (const rule of rulesBroken({
      n,
      runs: all,
      reason: dead.get(n)?.reason,
      crashes: Math.max(dead.get(n)?.crashes ?? 0, crashesOf.get(n) ?? 0),
      charges,
      cuts: (scene.evidence.cuts.get(n) ?? 0) + all.filter(({ pid }) => crashed.has(pid)).length,
      maxCrashes,
      suicides: suicides.get(n) ?? 0,
      quits: scene.kills.quit ?? 0,
    }))
      broken.push([rule, n])
  }
  const waiting = new Set(left.map(({ n }) => n))
  for (const n of new Set(acknowledged)) {
    const isOver = dead.has(n) || runs.get(n)?.some(({ endedAt }) => endedAt !== undefined)
    if (!isOver && !waiting.has(n)) broken.push(['lost', n])
  }
  const violations = broken.map(([rule, n], i) =>
    i < MAX_STORIES ? `${rule}: ${n}\n${storyOf(scene, journal, n)}` : `${rule}: ${n}`,
  )
  const stuck = left.filter(({ isExpected }) => !isExpected)
  for (const { n, path } of stuck.slice(0, MAX_STORIES))
    violations.push(
      `is still there: ${n} in ${path}, with the record ${JSON.stringify(recordOf(scene.spool, path))}`,
    )
  if (stuck.length > MAX_STORIES) violations.push(`and ${stuck.length - MAX_STORIES} more are still there`)
  violations.push(...scene.failures)
  const kills = Object.entries(scene.kills).map(([act, count]) => `${act} ${count}`)
  return {
    violations,
    summary:
      `${acknowledged.length} acknowledged, ${runs.size} run, ${reruns} run again, ${dead.size} dead, ` +
      `${scene.daemons.length} daemons; ${kills.join(', ')}`,
  }
}

interface Case {
  readonly n: string
  readonly runs: readonly Run[]
  readonly reason: string | undefined
  readonly crashes: number
  readonly charges: number
  /** How often the task's process was killed while it had the file, by us or by a guilty task running alongside. */
  readonly cuts: number
  readonly maxCrashes: number
  readonly suicides: number
  /** How often SIGQUIT ended the daemon: what it ends is no crash. */
  readonly quits: number
}

function rulesBroken(one: Case): string[] {
  const { n, runs, reason, crashes, charges, cuts, maxCrashes } = one
  const broken: string[] = []
  for (const [i, run] of runs.entries()) {
    const before = runs[i - 1]
    if ((before?.endedAt ?? 0) > run.wantedAt) broken.push('two runs at once')
  }
  if (isOnce(n) && runs.length > 1) broken.push(`at most once, and started ${runs.length} times`)
  if (isGuilty(n)) return [...broken, ...guiltRulesBroken(one)]
  if (runs.length - 1 > cuts) broken.push(`ran ${runs.length} times, and was cut short ${cuts} times`)
  const counted = Math.max(crashes, ...runs.map(({ attempt }) => attempt - 1))
  if (counted > charges)
    broken.push(`innocent, ${counted} runs are counted, and it was killed alone ${charges} times`)
  if (
    reason === 'crashes'
      ? charges < maxCrashes
      : reason === 'outcome-unknown'
        ? !isOnce(n) || cuts === 0
        : reason !== undefined
  )
    broken.push(`innocent, and buried (${reason}); it was killed alone ${charges} times`)
  return broken
}

/** A crash alongside others is not counted; from then on the task runs alone. */
const UNCOUNTED_CRASHES = 1

function guiltRulesBroken({ crashes, cuts, maxCrashes, suicides, quits }: Case): string[] {
  const broken: string[] = []
  if (suicides > maxCrashes + UNCOUNTED_CRASHES + quits)
    broken.push(`guilty, and killed its process ${suicides} times`)
  // not the runs that its handler recorded: it may be killed between the mark and the handler's first line
  if (crashes > cuts)
    broken.push(`guilty, ${crashes} crashes are counted, and it was cut short ${cuts} times`)
  return broken
}

function historyOf(journal: readonly string[]): History {
  const runs = new Map<string, Run[]>()
  const doubles: string[] = []
  const crashed = new Set<string>()
  const suicides = new Map<string, number>()
  const intrusions: string[] = []
  const locked = new Set<string>()
  for (const [at, line] of journal.entries()) {
    const [word, n = '', pid = '', attempt = '1'] = line.split(' ')
    const open = runs.get(n)?.findLast(run => run.pid === pid && run.endedAt === undefined)
    if (word === 'want' && locked.has(n)) intrusions.push(n)
    if (word === 'want')
      runs.set(n, [...(runs.get(n) ?? []), { pid, attempt: Number(attempt), wantedAt: at }])
    else if (word === 'end' && open !== undefined) open.endedAt = at
    else if (word === 'crash') {
      crashed.add(pid)
      suicides.set(n, (suicides.get(n) ?? 0) + 1)
    } else if (word === 'locked') locked.add(n)
    else if (word === 'unlocked') locked.delete(n)
    else if (word === 'double') doubles.push(n)
  }
  return { runs, doubles, crashed, suicides, intrusions }
}

/** Returns all that is known about a task: its journal lines, the fate of the processes that ran it, its record and log lines. */
function storyOf(scene: Scene, journal: readonly string[], n: string): string {
  const numbered = journal.map((line, at) => [at, line, line.split(' ')] as const)
  const own = numbered.filter(([, line]) => ` ${line} `.includes(` ${n} `))
  const name = new RegExp(`${n} \\([0-9a-f]+, ([^)]+)\\)`).exec(own.map(([, line]) => line).join('\n'))?.[1]
  const pids = new Set(own.flatMap(([, , [word, , pid = '']]) => (word === '#' ? [] : [pid])))
  const isAround = ([, line, [word, , pid = '']]: (typeof numbered)[number]) =>
    word === '#' ? [...pids].some(each => line.includes(` ${each} `)) : word === 'crash' && pids.has(pid)
  const lines = numbered.filter(each => own.includes(each) || isAround(each))
  const isTold = (line: string) =>
    (name !== undefined && line.includes(name)) ||
    [...pids].some(pid => new RegExp(`pid:? ${pid}\\b`).test(line))
  const log = scene.daemons.flatMap(({ output }) => output.split('\n')).filter(isTold)
  const record = name === undefined ? undefined : recordOf(scene.spool, name)
  return [...lines.map(([at, line]) => `${at}: ${line}`), ...log, `record: ${JSON.stringify(record)}`]
    .map(line => `    ${line}`)
    .join('\n')
}
