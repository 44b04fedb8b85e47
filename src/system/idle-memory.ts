import { onDemand } from '../base/on-demand.js'

/** How often it is looked whether the process is idle; ms. */
const LOOK_EVERY_MS = 5000
/** Of the time since the last look: below this, nothing worth mentioning was done. */
const IDLE_SHARE = 0.05
/** A larger heap takes longer than the few milliseconds that nobody misses; there V8 collects by itself. */
const MAX_HEAP_BYTES = 64 * 2 ** 20
/** The first collection finds what is garbage, the second one gives its pages back. */
const COLLECTIONS = 2

const loadV8 = onDemand<typeof import('node:v8')>('node:v8')
const loadVm = onDemand<typeof import('node:vm')>('node:vm')

/**
 * Gives back memory once whenever this process becomes idle. V8 collects when something is allocated: a process that has
 * started, or worked, and then waits keeps all that it took for it, a third of its memory.
 */
export function giveMemoryBackWhenIdle(everyMs = LOOK_EVERY_MS): void {
  const becomesIdle = idleness()
  let before = performance.eventLoopUtilization()
  const look = () => {
    const now = performance.eventLoopUtilization()
    if (becomesIdle(performance.eventLoopUtilization(now, before).utilization)) collect()
    before = now
  }
  setInterval(look, everyMs).unref()
}

/** Is told the utilization since the last look; says true when the process has worked before, and does no longer. */
export function idleness(): (utilization: number) => boolean {
  let hasWorked = true
  return utilization => {
    const wasWorking = hasWorked
    hasWorked = utilization >= IDLE_SHARE
    return wasWorking && !hasWorked
  }
}

/** Node has no other way to ask for a collection than V8's flag, which shows in contexts that are made while it is set. */
function collect(): void {
  const { getHeapStatistics, setFlagsFromString } = loadV8()
  if (getHeapStatistics().total_heap_size > MAX_HEAP_BYTES) return
  setFlagsFromString('--expose-gc')
  const collectGarbage: (how: object) => void = loadVm().runInNewContext('gc')
  setFlagsFromString('--no-expose-gc')
  for (let i = 0; i < COLLECTIONS; i++) collectGarbage({ type: 'major', execution: 'sync' })
}
