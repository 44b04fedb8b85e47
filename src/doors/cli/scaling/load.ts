import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { SpooldError } from '../../../base/errors.js'
import type { Io } from '../io.js'
import { openInput } from '../task-input.js'
import type { Arrivals } from './simulate.js'

const MICROS = 1_000_000
/** The longest load, because each second costs time and memory. A longer one is a mistake, such as times in milliseconds. */
const MAX_DAYS = 31
const DAY_S = 86_400
const MAX_RUN_DAYS = 7

/** A task: when it was due and how long it ran, in seconds. */
type Task = readonly [dueAt: number, ran: number]

/**
 * Reads `due,ran` lines, both in seconds; `due` counts from any time, such as 1970. A first line without digits is a title, and a
 * `#` begins a comment.
 *
 * @throws SpooldError REQUEST_INVALID with the line
 */
export function readCsv(file: string, stdin: Io['stdin']): Promise<Arrivals> {
  return read(file, stdin, (line, number) => {
    const text = line.replace(/#.*/, '').trim()
    if (text === '' || (number === 1 && !/\d/.test(text))) return undefined
    const fields = text.split(',').map(field => (field.trim() === '' ? Number.NaN : Number(field)))
    const [dueAt = Number.NaN, ran = Number.NaN] = fields
    if (fields.length === 2 && Number.isFinite(dueAt) && ran >= 0) return [dueAt, ran]
    throw invalid(file, number, 'expected two numbers, such as 12.5,0.2: due and ran, in seconds', text)
  })
}

/**
 * Reads the JSON log of a daemon: the line of a task that ended tells when it ended, how long it ran, and how long it had been
 * due before. Other lines are skipped.
 */
export function readLog(file: string, stdin: Io['stdin'], spool: string | undefined): Promise<Arrivals> {
  return read(file, stdin, line => {
    if (!line.includes('"task-ended"')) return undefined
    const { time, ranMs, waitMs, spool: of } = fieldsOf(line)
    if (spool !== undefined && of !== spool) return undefined
    const endedMs = typeof time === 'string' ? Date.parse(time) : time
    if (typeof endedMs !== 'number' || typeof ranMs !== 'number' || Number.isNaN(endedMs)) return undefined
    const waited = typeof waitMs === 'number' ? waitMs : 0
    return [(endedMs - ranMs - waited) / 1000, ranMs / 1000]
  })
}

function fieldsOf(line: string): Partial<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(line)
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {}
  } catch {
    return {} // cut off when the log was rotated, or printed by a handler
  }
}

async function read(
  file: string,
  stdin: Io['stdin'],
  taskOf: (line: string, number: number) => Task | undefined,
): Promise<Arrivals> {
  const input = Readable.from(openInput('the load', file, stdin), { objectMode: false })
  const tasks: Task[] = []
  let number = 0
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    const task = taskOf(line, ++number)
    if (task === undefined) continue
    if (task[1] > MAX_RUN_DAYS * DAY_S)
      throw invalid(file, number, `expected a run of at most ${MAX_RUN_DAYS} days`, `${task[1]} s`)
    tasks.push(task)
  }
  if (tasks.length === 0) throw new SpooldError('REQUEST_INVALID', `${file} has no task`)
  return arrivalsAmong(file, tasks)
}

/** Returns the arrivals of tasks, counted from the whole second of the first one. */
function arrivalsAmong(file: string, tasks: Task[]): Arrivals {
  tasks.sort(([a], [b]) => a - b)
  const first = Math.floor(tasks[0]?.[0] ?? 0)
  const days = ((tasks.at(-1)?.[0] ?? 0) - first) / DAY_S
  if (days > MAX_DAYS)
    throw new SpooldError(
      'REQUEST_INVALID',
      `${file}: expected at most ${MAX_DAYS} days between the first task and the last, got ${Math.round(days)}; are the times seconds?`,
    )
  return {
    arrivedAt: Float64Array.from(tasks, ([dueAt]) => Math.round((dueAt - first) * MICROS)),
    runMicros: Float64Array.from(tasks, ([, ran]) => Math.max(1, Math.round(ran * MICROS))),
  }
}

function invalid(file: string, line: number, expected: string, got: string): SpooldError {
  return new SpooldError('REQUEST_INVALID', `${file}:${line}: ${expected}; got ${JSON.stringify(got)}`)
}

/** How a load goes up and down. */
interface Pattern {
  readonly summary: string
  readonly seconds: number
  /** Mean run time in seconds; the times are exponential. */
  readonly run: number
  /** How many workers the load keeps busy in a second, as a share of the maximum. */
  readonly load: (second: number) => number
}

export const PATTERNS: Readonly<Record<string, Pattern>> = {
  idle: { summary: 'a task every 20 s', seconds: 1200, run: 0.1, load: () => 0.0003 },
  ramp: {
    summary: 'up to three quarters of the maximum in ten minutes, and down again',
    seconds: 1200,
    run: 0.1,
    load: second => 0.75 * (1 - Math.abs(1 - second / 600)),
  },
  burst: {
    summary: 'every two minutes, 20 s of five eighths of the maximum',
    seconds: 1200,
    run: 0.1,
    load: second => (second % 120 < 20 ? 0.625 : 0.0125),
  },
  sawtooth: {
    summary: 'up to five eighths of the maximum in 150 s, again and again',
    seconds: 1200,
    run: 0.2,
    load: second => 0.625 * ((second % 150) / 150),
  },
  long: {
    summary: 'tasks of 8 s, a quarter of the maximum',
    seconds: 2400,
    run: 8,
    load: () => 0.25,
  },
}

/** Returns tasks that arrive at random (a Poisson process) and run for random times. The same seed gives the same tasks. */
export function arrivalsOf({ seconds, run, load }: Pattern, maximum: number, seed: number): Arrivals {
  const random = randomOf(seed)
  const gap = (mean: number) => -Math.log(1 - random()) * mean
  const arrivedAt: number[] = []
  const runMicros: number[] = []
  const most = maximum / run // candidates per second: those beyond the load are thrown away
  for (let second = gap(1 / most); second < seconds; second += gap(1 / most)) {
    if (random() >= load(second)) continue
    arrivedAt.push(Math.round(second * 1e6))
    runMicros.push(Math.max(1, Math.round(gap(run) * 1e6)))
  }
  return { arrivedAt: Float64Array.from(arrivedAt), runMicros: Float64Array.from(runMicros) }
}

/** Returns a generator of random numbers from 0 to 1 (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
