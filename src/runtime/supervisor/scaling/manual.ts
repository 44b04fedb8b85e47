import type { Decision, Snapshot } from './algorithm.js'
import { hold } from './answers.js'

/** Only by hand. */
export function manual(snapshot: Snapshot): Decision {
  return { target: hold(snapshot), state: undefined, reason: 'by hand only' }
}
