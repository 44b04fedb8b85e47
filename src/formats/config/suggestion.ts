import { onDemand } from '../../base/on-demand.js'
import { optionNames } from './option-table.js'

const leven = onDemand<typeof import('leven')>('leven')

/** A word much longer than any option is not a misspelt option. */
const MAX_LENGTH = 40

/** Returns `; did you mean "spooler-ordered"?` if an option is close enough, else ''. */
export function suggestName(key: string): string {
  const best = nearestOf(key.toLowerCase().replaceAll('_', '-'), optionNames())
  return best === undefined ? '' : `; did you mean "${best}"?`
}

/** Returns the name that was probably meant; undefined if none is close enough. */
export function nearestOf(wanted: string, names: readonly string[]): string | undefined {
  if (wanted.length > MAX_LENGTH) return undefined
  const { default: distanceOf } = leven()
  const [best] = names
    .map(name => ({ name, distance: distanceOf(wanted, name) }))
    .sort((a, b) => a.distance - b.distance)
  // one to three wrong letters; in a short word, two make a different word
  const limit = Math.min(3, Math.max(1, Math.round(wanted.length * 0.4)))
  return best !== undefined && best.distance <= limit ? best.name : undefined
}
