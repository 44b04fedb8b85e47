// The cost of tasks for later, as a day's schedule in a spool has them.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { BIN, childrenOf, fill, leftOnTmpfs, median, startSpoold, until, withDirectory } from './harness.mjs'

export const title = 'Tasks for later'
export const about = `One process, a no-op handler in JavaScript, \`spooler-frequency = 5\`. Idle: the share of a processor of all processes of the daemon over
65 s, from 70 s after the start on, with 20,000 tasks for tomorrow. A start: the processor time that it takes longer until 100,000 of them are known. A due task: from exec
to its end, alone and beside 200,000 for tomorrow. What comes due in one second: 100,000 of 200,000 tasks, from the first one to the last, and a
backlog of 100,000 that a start finds.`

const IDLE = 20_000
const MANY = 100_000
/** The time by which the start's memory is given back, and tasks stored shortly before have been looked at once more. */
const RESTS_AFTER_MS = 70_000
const FREQUENCY = ['--spooler-frequency', '5']
const tomorrow = () => Math.floor(Date.now() / 1000) + 86_400

export async function run({ pairs, scale }) {
  const runs = Math.min(pairs, 3)
  const times = async (count, act) => {
    const all = []
    for (let i = 0; i < count; i++) all.push(await act())
    return { measured: median(all), least: Math.min(...all), most: Math.max(...all) }
  }
  const once = act => times(1, act)
  const each = act => times(runs, act)
  const idle = Math.round(IDLE * scale)
  const many = Math.round(MANY * scale)
  const perTask = async () => ((await startMs(many)) - (await startMs(0))) * (1000 / many)
  return {
    rows: [
      { case: 'idle, watched, %', target: '≤ 1', ...(await once(() => idleShare(idle, []))) },
      {
        case: 'idle, polled, %',
        target: '≤ 2',
        ...(await once(() => idleShare(idle, ['--spooler-watch', 'off']))),
      },
      { case: 'a start, µs for each', target: '≤ 20', ...(await each(perTask)) },
      { case: 'a due task alone, s', ...(await each(() => firstDue(0))) },
      { case: 'a due task beside 200,000, s', ...(await each(() => firstDue(2 * many))) },
      { case: '100,000 that come due, of 200,000, s', ...(await each(() => comeDue(many))) },
      { case: 'a backlog of 100,000, s', ...(await each(() => backlog(many))) },
    ],
  }
}

/** Returns the processor time, in ms, of the daemon, of its children, and of children that have ended. */
function cpuMs(pid) {
  const of = (each, fields) => {
    const all = readFileSync(`/proc/${each}/stat`, 'utf8').split(') ')[1].split(' ')
    return fields.reduce((sum, field) => sum + Number(all[field]) * 10, 0)
  }
  return childrenOf(pid).reduce((sum, child) => sum + of(child, [11, 12]), of(pid, [11, 12, 13, 14]))
}

const withSpool = (later, act) =>
  withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    mkdirSync(spool)
    fill(spool, later, { at: tomorrow() })
    return await act(directory, spool)
  })

const withDaemon = async (directory, spool, options, act) => {
  const daemon = startSpoold(directory, spool, [...FREQUENCY, ...options])
  try {
    return await act(daemon)
  } finally {
    await daemon.stop()
  }
}

const tasksOf = spool =>
  JSON.parse(execFileSync(process.execPath, [BIN, 'status', '--json', spool])).spools[0].tasks

const idleShare = (later, options) =>
  withSpool(later, (directory, spool) =>
    withDaemon(directory, spool, options, async ({ pid }) => {
      await setTimeout(RESTS_AFTER_MS)
      const [before, since] = [cpuMs(pid), performance.now()]
      await setTimeout(65_000)
      return ((cpuMs(pid) - before) / (performance.now() - since)) * 100
    }),
  )

const startMs = later =>
  withSpool(later, (directory, spool) =>
    withDaemon(directory, spool, [], async daemon => {
      await until('it runs', () => daemon.log().includes(' is running '))
      for (let before = -1; before !== cpuMs(daemon.pid); await setTimeout(1500)) before = cpuMs(daemon.pid)
      return cpuMs(daemon.pid)
    }),
  )

const firstDue = later =>
  withSpool(later, async (directory, spool) => {
    const due = join(spool, 'due')
    fill(join(directory, 'one'), 1)
    renameSync(join(directory, 'one', readdirSync(join(directory, 'one'))[0]), due)
    const startedAt = performance.now()
    return await withDaemon(directory, spool, [], async () => {
      await until('it has run', () => !existsSync(due), 60_000, 1)
      return (performance.now() - startedAt) / 1000
    })
  })

/** The time by which the daemon knows which tasks are for later. */
const SOON_S = 20

const comeDue = many =>
  withSpool(many, async (directory, spool) => {
    const at = Math.floor(Date.now() / 1000) + SOON_S
    fill(spool, many, { at, from: many + 1 })
    return await withDaemon(directory, spool, [], async () => {
      await setTimeout(at * 1000 - Date.now() - 2000)
      if (tasksOf(spool).later !== 2 * many) throw new Error('not all are known to be for later')
      return await untilRun(spool, many)
    })
  })

const backlog = many =>
  withDirectory('memory', async directory => {
    const spool = join(directory, 'spool')
    fill(spool, many)
    return await withDaemon(directory, spool, [], () => untilRun(spool, many))
  })

/** Returns the seconds from the first task to the last of `count`. */
async function untilRun(spool, count) {
  const total = leftOnTmpfs(spool)
  await until('the first has run', () => leftOnTmpfs(spool) < total - 1, undefined, 1)
  const startedAt = performance.now()
  await until('all have run', () => leftOnTmpfs(spool) <= total - count + 1)
  return (performance.now() - startedAt) / 1000
}
