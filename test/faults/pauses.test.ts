import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { pauseSpool, resumeSpool } from '#src/engines/spool/pauses.js'
import { type Daemon, readJournal, startDaemon } from '../helpers/daemon.js'
import { drop, leftIn, packet } from '../helpers/files.js'
import { isLong } from '../helpers/requires.js'
import { until } from '../helpers/until.js'
import { spoolDirectory, workspace } from '../helpers/workspace.js'

const ROUNDS = isLong ? 200 : 20
/** In ms. After so long a pause is obeyed, where processes get a turn at once. */
const OBEYED_MS = 1000
/** For how long, in ms, nothing may begin then. */
const WATCHED_MS = 300
/** In ms. The clock may be read a moment before the journal is written. */
const WRITTEN_MS = 20

const TICK_MS = 10
/** How many processes have to get a turn: a master that notices the pause, and a worker that reads it. */
const PARTIES = 2

/**
 * Waits until the pause has to be obeyed. A machine that keeps this process waiting keeps the daemons waiting, too, so it adds
 * that time.
 */
async function untilItCounts(pausedMs: number): Promise<number> {
  for (let lateMs = 0; ; ) {
    const leftMs = pausedMs + OBEYED_MS + PARTIES * lateMs - Date.now()
    if (leftMs <= 0) return Date.now()
    const before = performance.now()
    await setTimeout(TICK_MS)
    lateMs += Math.max(0, performance.now() - before - 2 * TICK_MS)
  }
}

/** Journals the start of each task and signal; some tasks block their process, and fast ones run ahead. */
const HANDLER = (journal: string) => `
  import { appendFileSync } from 'node:fs'
  import { addMsTimer, registerSignal } from 'spoold'
  const JOURNAL_TOO = line => appendFileSync(${JSON.stringify(journal)}, line + '\\n')
  const sleep = ms => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  registerSignal(1, 'spooler', () => JOURNAL_TOO(Date.now() + ' signal'))
  addMsTimer(1, 50)
  export default (env, task) => {
    JOURNAL_TOO(Date.now() + ' ' + env.n)
    if (env.ms !== undefined) sleep(Number(env.ms))
    return task.SPOOL_OK
  }`

/** Returns the starts in the journal: when, and of what. */
function startsOf(spool: string): ReadonlyArray<readonly [atMs: number, what: string]> {
  return readJournal(dirname(spool)).map(line => {
    const [at, what = ''] = line.split(' ')
    return [Number(at), what] as const
  })
}

describe('pausing and resuming under load', () => {
  it(`begins nothing while paused and forgets nothing, with two daemons and kills, ${ROUNDS} times`, async () => {
    const spool = spoolDirectory()
    const journal = join(dirname(spool), 'journal')
    const start = (): Promise<Daemon> => {
      const place = join(workspace(), 'daemon')
      mkdirSync(place)
      const handlerFile = join(place, 'h.mjs')
      writeFileSync(handlerFile, HANDLER(journal))
      return startDaemon({
        spool,
        isForeign: true,
        args: [`--spooler-import=${handlerFile}`],
        ini: { 'spooler-processes': 2, 'spooler-frequency': 1, 'spooler-quiet': 'true' },
      })
    }
    const daemons = [await start(), await start()]
    let dropped = 0
    const load = (count: number, more: Record<string, string> = {}) => {
      for (let i = 0; i < count; i++) drop(spool, `t-${++dropped}`, packet({ n: `t-${dropped}`, ...more }))
    }
    const pauses: Array<readonly [fromMs: number, toMs: number]> = []
    for (let round = 0; round < ROUNDS; round++) {
      load(150)
      load(3, { ms: String(600 + 100 * (round % 10)) }) // these wake during the pause, before or after its first second
      load(150)
      await until('some tasks have run', () => leftIn(spool).length < 300)
      await pauseSpool(spool, { pair: null, sinceMs: Date.now(), untilMs: null })
      const pausedMs = Date.now()
      const victim = round % 4
      if (victim === 1) daemons[0]?.child.kill('SIGKILL')
      if (victim === 1) daemons[0] = await start() // a daemon that starts later obeys, too
      const [worker = 0] = daemons[1]?.workers() ?? []
      if (victim === 2) process.kill(worker, 'SIGKILL')
      if (victim === 3) process.kill(worker, 'SIGSTOP')
      load(20)
      const fromMs = await untilItCounts(pausedMs)
      if (victim === 3) process.kill(worker, 'SIGCONT')
      await setTimeout(WATCHED_MS)
      pauses.push([fromMs, Date.now()])
      await resumeSpool(spool, null)
    }
    await until('nothing is left', () => leftIn(spool).length === 0)
    const starts = startsOf(spool)
    const wrong = starts.filter(([at]) =>
      pauses.some(([from, to]) => at > from + WRITTEN_MS && at < to - WRITTEN_MS),
    )
    assert.deepEqual(wrong, [], 'nothing starts while paused')
    const started = new Set(starts.map(([, what]) => what))
    const forgotten = Array.from({ length: dropped }, (_, i) => `t-${i + 1}`).filter(n => !started.has(n))
    assert.deepEqual(forgotten, [], 'nothing is forgotten')
    assert.ok(started.has('signal'), 'the schedules have fired')
  })
})
