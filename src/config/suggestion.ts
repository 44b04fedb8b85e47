import leven from 'leven'
import { optionNames } from './option-table.js'

/** What is longer than any option is no misspelt one. */
const MAX_LENGTH = 40

/** `; did you mean "spooler-ordered"?` when something is near enough, else nothing. */
export function suggestName(key: string): string {
  const wanted = key.toLowerCase().replaceAll('_', '-')
  if (wanted.length > MAX_LENGTH) return ''
  const [best] = optionNames()
    .map(name => ({ name, distance: leven(wanted, name) }))
    .sort((a, b) => a.distance - b.distance)
  // a letter or two; in a short word two letters make another word
  const limit = Math.min(3, Math.max(1, Math.round(wanted.length * 0.4)))
  return best !== undefined && best.distance <= limit ? `; did you mean "${best.name}"?` : ''
}
