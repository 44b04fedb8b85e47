// What the simulator says of the same load.
import { availableParallelism } from 'node:os'
import { simulate } from '../../build/src/doors/cli/scaling/simulate.js'
import { SCALING_DEFAULTS } from '../../build/src/runtime/supervisor/scaling/algorithm.js'
import { loadAlgorithm } from '../../build/src/runtime/supervisor/scaling/algorithms.js'
import { MAXIMUM } from './arrivals.mjs'

const SECOND = 1_000_000

/** @param startMs how long a worker takes to start that has a processor of its own */
export async function runSimulated(name, arrivals, seconds, startMs) {
  const algorithm = await loadAlgorithm(name === 'fixed' ? 'manual' : name)
  const minimum = name === 'cheap' ? 0 : 1
  const run = simulate(algorithm, arrivals, {
    scaling: { ...SCALING_DEFAULTS, minimum, maximum: MAXIMUM, processors: availableParallelism() },
    initial: name === 'fixed' ? MAXIMUM : minimum,
    tickMicros: SECOND,
    startMicros: startMs * 1000,
    untilMicros: seconds * SECOND,
    giveUpMicros: 0,
  })
  return {
    workers: run.seconds.map(({ workers }) => workers),
    p95Ms: Math.round(run.p95Ms),
    processSeconds: Math.round(run.processSeconds),
    reversals: run.reversals,
  }
}
