import { type Arrivals, type Simulation, simulate } from '#src/doors/cli/scaling/simulate.js'
import type { ScalingOptions } from '#src/runtime/supervisor/scaling/algorithm.js'
import { loadAlgorithm } from '#src/runtime/supervisor/scaling/algorithms.js'
import { OPTIONS, SECOND } from './scaling.js'

export const MAXIMUM = 16
export const SCALING: ScalingOptions = { ...OPTIONS, minimum: 1, maximum: MAXIMUM }
const POOL = {
  tickMicros: SECOND,
  giveUpMicros: 600 * SECOND,
}

/** Simulates an algorithm, with one process at first and at most sixteen. Unless told otherwise, each takes 0.4 s to start. */
export async function run(
  name: string,
  arrivals: Arrivals,
  seconds: number,
  { initial = 1, processors = SCALING.processors, startSeconds = 0.4 } = {},
): Promise<Simulation> {
  const minimum = name === 'cheap' ? 0 : SCALING.minimum
  const scaling = { ...SCALING, minimum, processors }
  const startMicros = startSeconds * SECOND
  const options = { ...POOL, scaling, startMicros, initial: Math.max(minimum, initial) }
  return simulate(await loadAlgorithm(name), arrivals, { ...options, untilMicros: seconds * SECOND })
}

export function fixed(arrivals: Arrivals, seconds: number): Promise<Simulation> {
  return run('manual', arrivals, seconds, { initial: MAXIMUM })
}
