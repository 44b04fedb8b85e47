// The simulator under the same load.
import { simulate } from '../../build/src/doors/cli/scaling/simulate.js'
import { scalingOptions } from '../../build/src/doors/daemon/pool-plan.js'
import { defaultsOf } from '../../build/src/formats/config/option-values.js'
import { loadAlgorithm } from '../../build/src/runtime/supervisor/scaling/algorithms.js'
import { MAXIMUM } from './arrivals.mjs'

const SECOND = 1_000_000
const DEFAULTS = defaultsOf(({ perSpool }) => perSpool === true)

/** @param startMs how long a worker with a processor of its own takes to start */
export async function runSimulated(name, arrivals, seconds, startMs) {
  const algorithm = await loadAlgorithm(name === 'fixed' ? 'manual' : name)
  const minimum = name === 'cheap' ? 0 : 1
  const run = simulate(algorithm, arrivals, {
    scaling: { ...scalingOptions(DEFAULTS, MAXIMUM), minimum },
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
