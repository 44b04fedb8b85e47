import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import type { ScaledWorker, ScalingOptions, Snapshot } from '#src/runtime/supervisor/scaling/algorithm.js'
import { loadAlgorithm } from '#src/runtime/supervisor/scaling/algorithms.js'
import { remembering, SCALING_DEFAULTS, snapshot } from '../../helpers/scaling.js'
import { ROOT } from '../../helpers/workspace.js'

// What uWSGI's own algorithms saw and decided at each cycle of its master: fixtures/cheaper/README.md.
const PLACE = join(ROOT, 'fixtures/cheaper')
const traces = readdirSync(PLACE).filter(file => file.endsWith('.trace.gz'))

/** One cycle, as uWSGI saw it. */
interface Cycle {
  readonly nowMicros: number
  readonly backlog: number
  /** Undefined: the algorithm was not asked. */
  readonly canSpawn: boolean | undefined
  /** What it answered: how many more or fewer workers. */
  readonly answer: number
  /** The workers that it had, by their numbers. */
  readonly workers: readonly ScaledWorker[]
  /** How many were about to leave: their places are not free yet. */
  readonly leaving: number
  readonly lines: readonly string[]
}

interface Trace {
  readonly given: Readonly<Record<string, string | number | true>>
  readonly openedMicros: number
  readonly greeting: readonly string[]
  readonly cycles: readonly Cycle[]
}

function readTrace(file: string): Trace {
  const [head = '', ...rest] = gunzipSync(readFileSync(join(PLACE, file)))
    .toString()
    .trimEnd()
    .split('\n')
  const given = JSON.parse(head)
  const ran = new Array<number>(given.processes).fill(0)
  const cycles: Cycle[] = []
  let openedMicros: number | undefined
  let greeting: string[] = []
  let lines: string[] = []
  for (const line of rest) {
    if (line.startsWith('O ')) {
      openedMicros = Number(line.slice(2))
      greeting = lines
      lines = []
    } else if (line.startsWith('L ')) lines.push(line.slice(2))
    else {
      cycles.push(cycleOf(line, ran, lines))
      lines = []
    }
  }
  return { given, openedMicros: openedMicros ?? cycles[0]?.nowMicros ?? 0, greeting, cycles }
}

/** @param ran for how long each worker had run; it is brought up to date */
function cycleOf(line: string, ran: number[], lines: readonly string[]): Cycle {
  const [, now, backlog, canSpawn, answer, ...places] = line.split(' ')
  const workers: ScaledWorker[] = []
  let leaving = 0
  for (const [at, place] of places.entries()) {
    const [, state, more = '0'] = /^(.)(\d+)?/.exec(place) ?? []
    ran[at] = (ran[at] ?? 0) + Number(more)
    if (state === 'l') leaving++
    if (state === 'b' || state === 'i')
      workers.push({ number: at + 1, isStarting: false, isBusy: state === 'b', busyMicros: ran[at] })
  }
  return {
    nowMicros: Number(now),
    backlog: Number(backlog),
    canSpawn: canSpawn === '-' ? undefined : canSpawn === '1',
    answer: Number(answer),
    workers,
    leaving,
    lines,
  }
}

function optionsOf(given: Trace['given']): ScalingOptions {
  const number = (name: string, otherwise: number) => Number(given[name] ?? otherwise)
  const { overload, idle, busyness } = SCALING_DEFAULTS
  return {
    ...SCALING_DEFAULTS,
    processors: 1,
    minimum: number('cheaper', 1),
    maximum: number('processes', 1),
    step: number('cheaper-step', 1),
    overload: number('cheaper-overload', overload),
    idle: number('cheaper-idle', idle),
    busyness: {
      min: number('cheaper-busyness-min', busyness.min),
      max: number('cheaper-busyness-max', busyness.max),
      multiplier: number('cheaper-busyness-multiplier', busyness.multiplier),
      penalty: number('cheaper-busyness-penalty', busyness.penalty),
      isVerbose: given['cheaper-busyness-verbose'] === true,
      backlogAlert: number('cheaper-busyness-backlog-alert', busyness.backlogAlert),
      backlogMultiplier: number('cheaper-busyness-backlog-multiplier', busyness.backlogMultiplier),
      backlogStep: number('cheaper-busyness-backlog-step', busyness.backlogStep),
      backlogNonzero: number('cheaper-busyness-backlog-nonzero', busyness.backlogNonzero),
    },
  }
}

interface Compared {
  asked: number
  grew: number
  held: number
  shrank: number
}

async function replay(file: string): Promise<Compared> {
  const { given, openedMicros, greeting, cycles } = readTrace(file)
  const options = optionsOf(given)
  const algorithm = await loadAlgorithm(String(given['cheaper-algo']))
  assert.deepEqual(algorithm.introduce?.(options) ?? [], greeting, file)
  const decide = remembering(algorithm)
  const compared: Compared = { asked: 0, grew: 0, held: 0, shrank: 0 }
  for (const [at, cycle] of cycles.entries()) {
    if (cycle.canSpawn === undefined) continue
    const { workers, backlog, nowMicros, canSpawn } = cycle
    // but for spare2, a place is free only when its worker has gone
    const taken = algorithm.name === 'spare2' ? 0 : cycle.leaving
    const limited = { ...options, maximum: options.maximum - taken }
    const seen: Partial<Snapshot> = { options: limited, openedMicros, nowMicros, workers, backlog, canSpawn }
    const { target, lines = [], reason } = decide(snapshot('', seen))
    const got = { answer: target - workers.length, lines }
    const where = `${file}, cycle ${at + 1}, ${workers.length} workers: ${reason}`
    assert.deepEqual(got, { answer: cycle.answer, lines: cycle.lines }, where)
    compared.asked++
    compared[cycle.answer > 0 ? 'grew' : cycle.answer < 0 ? 'shrank' : 'held']++
  }
  return compared
}

describe('at every cycle, the decisions and log lines are those of uWSGI', () => {
  const asked: Record<string, number> = {}
  for (const file of traces)
    it(file.replace('.trace.gz', ''), async () => {
      const compared = await replay(file)
      const algorithm = file.split(/[-.]/)[0] ?? ''
      asked[algorithm] = (asked[algorithm] ?? 0) + compared.asked
      for (const change of ['grew', 'held', 'shrank'] as const)
        assert.ok(compared[change] > 0, `${file} never ${change}: ${JSON.stringify(compared)}`)
    })

  it('in ten thousand cycles of spare, backlog and busyness, and in two thousand of spare2', () => {
    const { spare = 0, backlog = 0, busyness = 0, spare2 = 0 } = asked
    assert.ok(spare + backlog + busyness >= 10_000, JSON.stringify(asked))
    assert.ok(spare2 >= 2000, JSON.stringify(asked))
  })
})
