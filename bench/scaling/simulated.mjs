// What the simulator says of the same load.
import { availableParallelism } from 'node:os'
import { loadAlgorithm } from '../../build/src/supervisor/scaling/algorithms.js'
import { SCALING_DEFAULTS } from '../../build/src/supervisor/scaling/scaling-options.js'
import { simulate } from '../../build/src/supervisor/scaling/simulate.js'
import { MAXIMUM } from './arrivals.mjs'

const SECOND = 1_000_000
/** How long a worker with a small handler takes, of which nearly all is computing. */
const START_MS = 100

export async function runSimulated(
  name,
  arrivals,
  seconds,
  { startMs = START_MS, processors = availableParallelism() } = {},
) {
  const algorithm = await loadAlgorithm(name === 'fixed' ? 'manual' : name)
  const minimum = name === 'cheap' ? 0 : 1
  const run = simulate(algorithm, arrivals, {
    scaling: { ...SCALING_DEFAULTS, minimum, maximum: MAXIMUM, processors },
    initial: name === 'fixed' ? MAXIMUM : minimum,
    tickMicros: SECOND,
    startMicros: startMs * 1000,
    eagerMicros: 0.05 * SECOND,
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
