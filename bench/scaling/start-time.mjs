// How long a worker with a processor of its own takes to start on this machine.
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { askDaemon } from '../../build/src/engines/control/client.js'
import { median, until } from '../harness.mjs'
import { MAXIMUM } from './arrivals.mjs'
import { optionsOf, withDaemon } from './spoold.mjs'

const ROUNDS = 3

/** Measures workers that start at once and share the processors. @returns the milliseconds of one worker */
export function measureStart() {
  return withDaemon(optionsOf('manual'), async ({ spool, snapshot }) => {
    const scale = to => askDaemon(join(spool, '.spoold/control'), 'scale', { spool, to: String(to) })
    const ready = async () =>
      (await snapshot()).processes.workers.filter(({ state }) => state === 'ready').length
    const times = []
    for (let round = 0; round < ROUNDS; round++) {
      const from = performance.now()
      await scale(MAXIMUM)
      await until('all are ready', async () => (await ready()) === MAXIMUM)
      times.push(performance.now() - from)
      await scale(1)
      await until('one is left', async () => (await snapshot()).processes.workers.length === 1)
    }
    return Math.round((median(times) * availableParallelism()) / (MAXIMUM - 1))
  })
}
