// A thousand tasks of 100 ms come at once to an idle daemon: when they are done, and when the daemon is as small again as before.
import { setTimeout } from 'node:timers/promises'
import { childrenOf, memoryOf, until } from '../harness.mjs'
import { optionsOf, withDaemon } from './spoold.mjs'

const TASKS = 1000
const RUN_MS = 100

/** @returns seconds from the first task's file to the last task's end */
export function runSpike(algorithm) {
  return withDaemon(optionsOf(algorithm), async daemon => (await spike(daemon)).seconds)
}

/** @returns also how long it took until there was one worker again, and the memory of all processes in MB */
export function runSpikeAndReturn(algorithm) {
  return withDaemon(optionsOf(algorithm), async daemon => {
    const before = treeMegabytes(daemon.pid)
    const { seconds } = await spike(daemon)
    const endedAt = performance.now()
    const peak = treeMegabytes(daemon.pid)
    const most = childrenOf(daemon.pid).length
    await until('there is one worker', () => childrenOf(daemon.pid).length <= 1, 600_000, 100)
    const backSeconds = (performance.now() - endedAt) / 1000
    await setTimeout(2000)
    return { seconds, most, backSeconds, megabytes: [before, peak, treeMegabytes(daemon.pid)] }
  })
}

async function spike({ put, events }) {
  const from = Date.now()
  for (let number = 0; number < TASKS; number++) put(number, RUN_MS)
  const ended = () => events().filter(({ event }) => event === 'task-ended')
  await until('all have run', () => ended().length >= TASKS, 300_000, 250)
  return { seconds: (Math.max(...ended().map(({ time }) => time)) - from) / 1000 }
}

function treeMegabytes(pid) {
  return Math.round([pid, ...childrenOf(pid)].reduce((sum, each) => sum + memoryOf(each, 'VmRSS'), 0))
}
