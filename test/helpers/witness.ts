import assert from 'node:assert/strict'
import { closeSync, existsSync, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import type { DeadLetter } from '#src/engines/spool/dead-letters.js'
import { HEADER_BYTES } from '#src/formats/protocol/header.js'
import { lastValue, parseVars } from '#src/formats/protocol/vars.js'
import { lettersIn } from './spools.js'

/**
 * A handler that journals the start and end of each run, with the process that ran it: one O_APPEND write per line, which
 * survives the death of any process. Tasks with an `ms` take that long, the others no time.
 */
export const WITNESS = `
const master = process.ppid
const line = (word, env, task) => JOURNAL(word + ' ' + env.n + ' ' + process.pid + ' ' + master + ' ' + task.attempt)
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
export default (env, task) => {
  line('start', env, task)
  const end = () => { line('end', env, task); return task.SPOOL_OK }
  return env.ms === undefined ? end() : sleep(Number(env.ms)).then(end)
}`

/** A run of a task, as its handler journaled it. */
export interface WitnessedRun {
  readonly n: string
  readonly pid: number
  readonly master: number
  hasEnded: boolean
  /** True if the worker began no other run after it. */
  isLastOfWorker: boolean
}

/** A file of lines that only grows, read incrementally. */
export class Tail {
  readonly lines: string[] = []
  readonly #path: string
  readonly #buffer = Buffer.alloc(2 ** 20)
  #offset = 0
  #rest = ''

  constructor(path: string) {
    this.#path = path
  }

  read(): readonly string[] {
    if (!existsSync(this.#path)) return this.lines
    const fd = openSync(this.#path, 'r')
    for (;;) {
      const got = readSync(fd, this.#buffer, 0, this.#buffer.length, this.#offset)
      if (got === 0) break
      this.#offset += got
      const parts = (this.#rest + this.#buffer.toString('latin1', 0, got)).split('\n')
      this.#rest = parts.pop() ?? ''
      this.lines.push(...parts)
    }
    closeSync(fd)
    return this.lines
  }
}

/** Returns the runs of each task, in order. */
export function runsOf(journal: readonly string[]): Map<string, WitnessedRun[]> {
  const runs = new Map<string, WitnessedRun[]>()
  const lastOf = new Map<number, WitnessedRun>()
  for (const line of journal) {
    const [word, n = '', pid = '', master = ''] = line.split(' ')
    if (word === 'start') {
      const run = { n, pid: Number(pid), master: Number(master), hasEnded: false, isLastOfWorker: true }
      const before = lastOf.get(run.pid)
      if (before !== undefined) before.isLastOfWorker = false
      lastOf.set(run.pid, run)
      runs.set(n, [...(runs.get(n) ?? []), run])
    } else if (word === 'end') {
      const run = lastOf.get(Number(pid))
      assert.equal(run?.n, n, `the journal has "${line}" without a start`)
      if (run !== undefined) run.hasEnded = true
    }
  }
  return runs
}

/** Returns the dead letters by their `n`. */
export async function deadOf(spool: string): Promise<Map<string, DeadLetter>> {
  const dead = new Map<string, DeadLetter>()
  for await (const { name, letter } of lettersIn(spool)) {
    assert.ok(letter !== undefined, `${name} has no reason`)
    const text = readFileSync(join(spool, '.spoold/dead', name), 'latin1')
    const vars = parseVars(text, HEADER_BYTES, HEADER_BYTES + Buffer.from(text, 'latin1').readUInt16LE(1))
    const n = 'fault' in vars ? undefined : lastValue(vars, 'n')
    dead.set(n ?? name, letter)
  }
  return dead
}

export interface Expected {
  readonly spool: string
  readonly journal: readonly string[]
  /** Tasks acknowledged to their writers. */
  readonly acknowledged: readonly string[]
  isOnce(n: string): boolean
  /** True if the worker was killed during this run. Asked only for the last run of a worker. */
  wasKilled(run: WitnessedRun): boolean
}

/** Asserts that no task was lost, that only interrupted tasks ran again, and that no at-most-once task ran twice. */
export async function assertWitnessed(expected: Expected): Promise<{ reruns: number; buried: number }> {
  const { spool, journal, acknowledged, isOnce, wasKilled } = expected
  const runs = runsOf(journal)
  const dead = await deadOf(spool)
  const isCut = (run: WitnessedRun) => run.isLastOfWorker && wasKilled(run)
  let reruns = 0
  for (const [n, all] of runs) {
    reruns += all.length - 1
    const unexplained = all.slice(0, -1).filter(run => !isCut(run))
    assert.deepEqual(unexplained, [], `task ${n} ran again although it had not been cut short`)
    assert.ok(
      !isOnce(n) || all.length === 1,
      `task ${n} was to run at most once, and ran ${all.length} times`,
    )
  }
  const lost = acknowledged.filter(n => {
    const cut = (runs.get(n) ?? []).filter(isCut).length
    const reason = dead.get(n)?.reason
    if (reason === 'outcome-unknown') return !isOnce(n)
    if (reason !== undefined) return reason !== 'crashes' || cut < 2
    return runs.get(n)?.some(({ hasEnded }) => hasEnded) !== true
  })
  assert.deepEqual(lost, [], 'these were acknowledged, and did not run')
  return { reruns, buried: dead.size }
}
