import { onDemand } from '../base/on-demand.js'

/** How often to check whether the process is idle. */
const LOOK_EVERY_MS = 5000
/** The process counts as idle if it was busy for less than this share of the time since the last check. */
const IDLE_SHARE = 0.05
/** Collecting a larger heap takes more than a few milliseconds; V8 then collects on its own schedule. */
const MAX_HEAP_BYTES = 64 * 2 ** 20
/** The first collection finds the garbage, the second returns its pages. */
const COLLECTIONS = 2

const loadV8 = onDemand<typeof import('node:v8')>('node:v8')
const loadVm = onDemand<typeof import('node:vm')>('node:vm')

/**
 * Returns memory to the system each time this process becomes idle. V8 collects only on allocation: a process that waits
 * after its start or after work would keep its garbage, a third of its memory.
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

/** Returns a function of the utilization since its last call. It returns true when the process changes from busy to idle. */
export function idleness(): (utilization: number) => boolean {
  let hasWorked = true
  return utilization => {
    const wasWorking = hasWorked
    hasWorked = utilization >= IDLE_SHARE
    return wasWorking && !hasWorked
  }
}

/** V8's flag is Node's only way to request a collection; it takes effect in contexts created while it is set. */
function collect(): void {
  const { getHeapStatistics, setFlagsFromString } = loadV8()
  if (getHeapStatistics().total_heap_size > MAX_HEAP_BYTES) return
  setFlagsFromString('--expose-gc')
  const collectGarbage: (how: object) => void = loadVm().runInNewContext('gc')
  setFlagsFromString('--no-expose-gc')
  for (let i = 0; i < COLLECTIONS; i++) collectGarbage({ type: 'major', execution: 'sync' })
}
