// The patterns of docs/scaling.md, shortened to what a live run can take.
import { arrivalsOf, PATTERNS } from '../../build/src/doors/cli/scaling/load.js'

export const MAXIMUM = 16
export { PATTERNS }

/** A load that never changes. */
const STEADY = { run: 0.1, load: () => 0.3 }

/** Patterns that repeat are cut; the ramp goes up and down once, however long it takes. */
export function arrivalsIn(name, seconds, seed) {
  const pattern = name === 'steady' ? STEADY : PATTERNS[name]
  const stretch = name === 'ramp' ? pattern.seconds / seconds : 1
  const load = second => pattern.load(second * stretch)
  const { arrivedAt, runMicros } = arrivalsOf({ ...pattern, seconds, load }, MAXIMUM, seed)
  return { arrivedAt, runMicros }
}

/** Calls `begin` for each task when it is due, and `second` after each second. Resolves when `seconds` have passed. */
export function play({ arrivedAt, runMicros }, seconds, { begin, second }) {
  const from = performance.now()
  let next = 0
  let passed = 0
  return new Promise((resolve, reject) => {
    const step = () => {
      try {
        const now = performance.now() - from
        for (; next < arrivedAt.length && arrivedAt[next] / 1000 <= now; next++)
          begin(next, runMicros[next] / 1000)
        if (now >= (passed + 1) * 1000) second(++passed)
        if (passed >= seconds) return resolve()
        const due = Math.min((arrivedAt[next] ?? Number.POSITIVE_INFINITY) / 1000, (passed + 1) * 1000)
        setTimeout(step, Math.max(0, due - (performance.now() - from)))
      } catch (error) {
        reject(error)
      }
    }
    step()
  })
}

/** Returns how often a row of changes turned from growing to shrinking, or back. */
export function reversalsOf(changes) {
  let [direction, reversals] = [0, 0]
  for (const change of changes.map(Math.sign)) {
    if (change === 0) continue
    if (direction !== 0 && change !== direction) reversals++
    direction = change
  }
  return reversals
}
